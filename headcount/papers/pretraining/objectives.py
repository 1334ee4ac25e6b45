"""Objectives: what a model can be trained to do; each has its data, model, batches and score.

All have one architecture, M2M100's class: a Transformer with layer norms before the sublayers. It
has sinusoidal positions, ReLU, and one matrix for both sides' embeddings and the output.
Departure from transformers' defaults: no LayerDrop.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, final

import torch
from transformers import (
    M2M100Config,
    M2M100ForConditionalGeneration,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from headcount.corpora import Columns, Data
from headcount.models import EncoderConfig, EncoderForCausalLM, EncoderForMaskedLM, Loaded
from headcount.papers.pretraining.examples import (
    CausalExamples,
    Encoded,
    Examples,
    MaskedExamples,
    TranslationExamples,
)
from headcount.papers.pretraining.recipe import ModelRecipe
from headcount.papers.pretraining.rows import Rows, read_pairs, read_texts
from headcount.papers.pretraining.trainer import Score
from headcount.tasks import Task, build


def translation_model(
    recipe: ModelRecipe, tokenizer: PreTrainedTokenizerBase, seed: int
) -> M2M100ForConditionalGeneration:
    """A fresh encoder-decoder; the same seed gives the same weights."""
    torch.manual_seed(seed)
    return M2M100ForConditionalGeneration(M2M100Config(**_configuration(recipe, tokenizer)))


def _language_model(
    kind: type[EncoderForMaskedLM | EncoderForCausalLM],
    recipe: ModelRecipe,
    tokenizer: PreTrainedTokenizerBase,
    seed: int,
) -> PreTrainedModel:
    """A fresh language model: the translation model's encoder with the same weights."""
    model = kind(EncoderConfig(**_configuration(recipe, tokenizer)))
    other = translation_model(recipe, tokenizer, seed)
    model.model.load_state_dict(other.model.encoder.state_dict())
    return model


masked_model = partial(_language_model, EncoderForMaskedLM)
causal_model = partial(_language_model, EncoderForCausalLM)


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


BLEU, PERPLEXITY = Score("bleu", True), Score("perplexity", False)


@final
@dataclass(frozen=True)
class Objective:
    """One way to train the architecture; `name` is the name of its task."""

    name: str
    read: Callable[[Data, Columns | None], Rows]
    """Function that reads files into rows."""
    model: Callable[[ModelRecipe, PreTrainedTokenizerBase, int], PreTrainedModel]
    """Function that makes a fresh model from a recipe, a vocabulary and a seed."""
    examples: Callable[[Encoded, int], Examples]
    """Function that makes batches from encoded rows and a seed."""
    score: Score
    """Score of the task on the development set."""
    options: dict[str, Any] = field(default_factory=dict)
    """Options of that task."""

    def dev(self, loaded: Loaded, rows: Rows) -> Task:
        """The task on the development set, which measures how good the model is."""
        return build(self.name, loaded, rows.columns, **self.options)


OBJECTIVES = {
    objective.name: objective
    for objective in (
        # Greedy search: the development set is translated at every checkpoint.
        Objective(
            "translation",
            read_pairs,
            translation_model,
            TranslationExamples,
            BLEU,
            {"num_beams": 1},
        ),
        Objective("masked-lm", read_texts, masked_model, MaskedExamples, PERPLEXITY),
        Objective("causal-lm", read_texts, causal_model, CausalExamples, PERPLEXITY),
    )
}
