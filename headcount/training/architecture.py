"""The architecture: M2M100's class, a Transformer with layer norms before the sublayers.

Sinusoidal positions, ReLU, one matrix for the embeddings of both sides and the output.
Departure from transformers' defaults: weights start with a standard deviation of width^-0.5, which
gives scaled embeddings a variance of 1 and is Glorot's for square maps; no layer is dropped whole.
"""

import torch
from transformers import M2M100Config, M2M100ForConditionalGeneration, PreTrainedTokenizerFast

from headcount.training.recipe import Recipe


def configuration(recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> M2M100Config:
    """The configuration of a recipe's model over a vocabulary."""
    return M2M100Config(
        vocab_size=len(tokenizer),
        max_position_embeddings=recipe.max_length,
        d_model=recipe.width,
        encoder_layers=recipe.layers,
        decoder_layers=recipe.layers,
        encoder_attention_heads=recipe.heads,
        decoder_attention_heads=recipe.heads,
        encoder_ffn_dim=recipe.feed_forward,
        decoder_ffn_dim=recipe.feed_forward,
        encoder_layerdrop=0.0,
        decoder_layerdrop=0.0,
        dropout=recipe.dropout,
        attention_dropout=recipe.attention_dropout,
        init_std=recipe.width**-0.5,
        bos_token_id=tokenizer.bos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.eos_token_id,
    )


def translation_model(
    recipe: Recipe, tokenizer: PreTrainedTokenizerFast, seed: int
) -> M2M100ForConditionalGeneration:
    """A fresh model; the same seed gives the same weights."""
    torch.manual_seed(seed)
    return M2M100ForConditionalGeneration(configuration(recipe, tokenizer))
