"""The architecture: M2M100's class, a Transformer with layer norms before the sublayers.

It has sinusoidal positions, ReLU, and one matrix for both sides' embeddings and the output.
Departure from transformers' defaults: no LayerDrop.
"""

from typing import Any

import torch
from transformers import (
    M2M100Config,
    M2M100ForConditionalGeneration,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from headcount.models import EncoderConfig, EncoderForCausalLM, EncoderForMaskedLM
from headcount.training.pretraining.recipe import ModelRecipe


def translation_model(
    recipe: ModelRecipe, tokenizer: PreTrainedTokenizerBase, seed: int
) -> M2M100ForConditionalGeneration:
    """A fresh encoder-decoder; the same seed gives the same weights."""
    torch.manual_seed(seed)
    return M2M100ForConditionalGeneration(M2M100Config(**_configuration(recipe, tokenizer)))


def masked_model(
    recipe: ModelRecipe, tokenizer: PreTrainedTokenizerBase, seed: int
) -> PreTrainedModel:
    """A fresh masked language model: the translation model's encoder with the same weights."""
    model = EncoderForMaskedLM(EncoderConfig(**_configuration(recipe, tokenizer)))
    return _with_encoder(model, translation_model(recipe, tokenizer, seed))


def causal_model(
    recipe: ModelRecipe, tokenizer: PreTrainedTokenizerBase, seed: int
) -> PreTrainedModel:
    """A fresh causal language model: the translation model's encoder with the same weights."""
    model = EncoderForCausalLM(EncoderConfig(**_configuration(recipe, tokenizer)))
    return _with_encoder(model, translation_model(recipe, tokenizer, seed))


def _with_encoder(
    model: EncoderForMaskedLM | EncoderForCausalLM, other: M2M100ForConditionalGeneration
) -> PreTrainedModel:
    model.model.load_state_dict(other.model.encoder.state_dict())
    return model


def _configuration(recipe: ModelRecipe, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """Fields of the configuration for a tokenizer's vocabulary."""
    return {
        "vocab_size": len(tokenizer),
        "max_position_embeddings": recipe.max_length,
        "d_model": recipe.width,
        "encoder_layers": recipe.layers,
        "decoder_layers": recipe.layers,
        "encoder_attention_heads": recipe.heads,
        "decoder_attention_heads": recipe.heads,
        "encoder_ffn_dim": recipe.feed_forward,
        "decoder_ffn_dim": recipe.feed_forward,
        "init_std": recipe.init_std,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        "dropout": recipe.dropout,
        "attention_dropout": recipe.attention_dropout,
        "bos_token_id": tokenizer.bos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "decoder_start_token_id": tokenizer.eos_token_id,
    }
