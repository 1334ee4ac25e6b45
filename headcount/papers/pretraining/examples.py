"""Examples: token ids of the training text, and the batches that each objective makes from them.

Labels are at the positions that predict them; positions with label -100 are not predicted.

Objectives are what a model can be trained to do; each has its data, model, batches and score. All
have one architecture, M2M100's class: a Transformer with layer norms before the sublayers. It
has sinusoidal positions, ReLU, and one matrix for both sides' embeddings and the output.
Departure from transformers' defaults: no LayerDrop.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, compress
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from transformers import (
    M2M100Config,
    M2M100ForConditionalGeneration,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from headcount.core import CorpusError, ModelError, amount
from headcount.corpora import Columns, Data, check_language_position, check_languages_set
from headcount.models import EncoderConfig, EncoderForCausalLM, EncoderForMaskedLM, Loaded
from headcount.papers.pretraining.recipe import ModelRecipe
from headcount.papers.pretraining.rows import Rows, read_pairs, read_texts
from headcount.papers.pretraining.tokenizer_training import BpeDropout, Ids
from headcount.tasks import IGNORED, SHARE_MASK, SHARE_RANDOM, Task, build, padded, text_inputs
from headcount.training import NO_PART, Parts

SHARE_PREDICTED = 0.15
"""Share of the tokens that are predicted in masked language modelling."""


@final
@dataclass(frozen=True)
class Symbols:
    """Ids of the tokens that batches need."""

    pad: int
    end: int
    """`</s>`, which ends every text and starts the decoder's input."""
    mask: int | None
    usual: Int[np.ndarray, " token"]
    """All tokens that are not special."""

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, masks: bool = False) -> "Symbols":
        """The symbols of a tokenizer.

        Raises:
            ModelError: if the tokenizer lacks a padding or end token, or a mask where needed.
        """
        ids = {"pad": tokenizer.pad_token_id, "eos": tokenizer.eos_token_id}
        ids |= {"mask": tokenizer.mask_token_id} if masks else {}
        found = {name: number for name, number in ids.items() if isinstance(number, int)}
        if missing := [name for name in ids if name not in found]:
            raise ModelError(
                f"Expected a tokenizer with {', '.join(f'{name}_token' for name in ids)}, got "
                f"{tokenizer.name_or_path}, which has no {missing[0]}_token. Use the tokenizer of "
                "a model that was trained here."
            )
        usual = np.setdiff1d(np.arange(len(tokenizer)), tokenizer.all_special_ids)
        return cls(found["pad"], found["eos"], found.get("mask"), usual)


@final
@dataclass(frozen=True)
class Encoded:
    """Token ids of both sides, or the one side, of every example."""

    sides: list[list[Ids]]
    """Token ids by side, then by example."""
    symbols: Symbols
    num_long: int
    """Number of examples left out because a side is longer than the recipe allows."""
    seed: int
    """Seed of what batches draw."""
    bpe_dropout: BpeDropout | None = None
    """Splitter that cuts the examples into different pieces in every batch; None for none."""
    swapped: float = 0.0
    """Probability that a token of a translation's source is replaced by another."""

    @property
    def length_NS(self) -> Int[np.ndarray, "example side"]:
        """Number of tokens on each side of every example."""
        return np.array([[len(ids) for ids in side] for side in self.sides]).T

    @cached_property
    def usual_T(self) -> Int[np.ndarray, " token"]:
        """All tokens of the first side of all examples, in order, without special ones."""
        ids = np.fromiter(chain.from_iterable(self.sides[0]), dtype=np.int64)
        return ids[np.isin(ids, self.symbols.usual)]

    def inputs(self, number: int, part_EP: Parts) -> dict[str, Tensor]:
        """The first side of batch `number` as model inputs."""
        return text_inputs(self.ids(0, number, part_EP), self.symbols.pad)

    def ids(self, side: int, number: int, part_EP: Parts) -> list[Ids]:
        """Token ids of one side; of two concatenated examples only the second keeps its end."""
        cut = self._cut(side, number)
        return [
            [id for part in parts[:-1] for id in self._without_end(cut(part))] + cut(parts[-1])
            for parts in ([part for part in row if part != NO_PART] for row in part_EP.tolist())
        ]

    def _cut(self, side: int, number: int) -> Callable[[int], Ids]:
        if self.bpe_dropout is None:
            return self.sides[side].__getitem__
        return self.bpe_dropout.of_batch(side, number)

    def _without_end(self, ids: Ids) -> Ids:
        return ids[:-1] if ids[-1:] == [self.symbols.end] else ids


def encode(
    rows: Rows,
    tokenizer: PreTrainedTokenizerBase,
    recipe: ModelRecipe,
    seed: int,
    masks: bool = False,
) -> Encoded:
    """Encode rows, leaving out those with a side longer than the recipe's `max_length` tokens.

    Args:
        rows: the text.
        tokenizer: the tokenizer that splits it into pieces.
        recipe: sets the longest example, the BPE-dropout and the share of swapped tokens.
        seed: seed of the BPE-dropout, and of the tokens that batches swap or mask.
        masks: whether tokens will be masked.

    Raises:
        ModelError: if the tokenizer lacks a symbol, or can't be used with BPE-dropout.
        CorpusError: if no row is left.
    """
    # Markup such as <s> in a text is treated as text.
    options: dict[str, Any] = {"verbose": False, "split_special_tokens": True}
    columns = list(rows.columns.values())
    if len(columns) > 1:
        check_languages_set(tokenizer)
        check_language_position(tokenizer)
    encoded = [
        tokenizer(**{side: texts}, **options)["input_ids"]
        for side, texts in zip(("text", "text_target"), columns, strict=False)
    ]
    is_kept_N = [max(map(len, row)) <= recipe.max_length for row in zip(*encoded, strict=True)]
    texts = [list(compress(column, is_kept_N)) for column in columns]
    sides = [list(compress(side, is_kept_N)) for side in encoded]
    if not any(is_kept_N):
        raise CorpusError(
            f"Expected an example of at most {amount(recipe.max_length, 'token')}, but all "
            f"{len(rows.rows)} are longer. Set the recipe's max_length higher, or split the lines."
        )
    dropout = (
        BpeDropout(tokenizer, texts, sides, recipe.bpe_dropout, seed)
        if recipe.bpe_dropout
        else None
    )
    num_long = is_kept_N.count(False)
    symbols = Symbols.of(tokenizer, masks)
    return Encoded(sides, symbols, num_long, seed, dropout, recipe.swapped)


Collate = Callable[[Encoded, int, Parts], dict[str, Tensor]]
"""Makes the model's inputs and labels for a batch of the training: the text, the batch's number,
and its examples."""


def translation_batch(encoded: Encoded, number: int, part_EP: Parts) -> dict[str, Tensor]:
    """A batch of sources, decoder inputs and labels: the target is predicted.

    The decoder reads it shifted one place right, after `</s>`. Every batch draws which tokens of
    the source are swapped, from the seed and the batch's number.
    """
    labels_EN = padded(encoded.ids(1, number, part_EP), IGNORED)
    shifted_EN = labels_EN.roll(1, 1)
    shifted_EN[:, 0] = encoded.symbols.end
    inputs = encoded.inputs(number, part_EP)
    if encoded.swapped:
        inputs["input_ids"] = _swapped(encoded, inputs["input_ids"], number)
    return inputs | {
        "decoder_input_ids": shifted_EN.masked_fill(shifted_EN == IGNORED, encoded.symbols.pad),
        "decoder_attention_mask": (labels_EN != IGNORED).to(torch.int64),
        "labels": labels_EN,
    }


def _swapped(
    encoded: Encoded, ids_EN: Int[Tensor, "row token"], number: int
) -> Int[Tensor, "row token"]:
    """Token ids with a share replaced by tokens of all sources, frequent ones more often."""
    rng = np.random.default_rng((encoded.seed, number))
    is_swapped_EN = np.isin(ids_EN, encoded.symbols.usual)
    is_swapped_EN &= rng.random(ids_EN.shape) < encoded.swapped
    others_EN = rng.choice(encoded.usual_T, ids_EN.shape)
    return torch.from_numpy(np.where(is_swapped_EN, others_EN, ids_EN))


def causal_batch(encoded: Encoded, number: int, part_EP: Parts) -> dict[str, Tensor]:
    """A batch of texts, and the same texts shifted one place left as labels."""
    inputs = encoded.inputs(number, part_EP)
    is_token_EN = inputs["attention_mask"].bool()
    labels_EN = inputs["input_ids"].masked_fill(~is_token_EN, IGNORED).roll(-1, 1)
    labels_EN[:, -1] = IGNORED
    return inputs | {"labels": labels_EN}


def masked_batch(encoded: Encoded, number: int, part_EP: Parts) -> dict[str, Tensor]:
    """A batch of texts with masked tokens, at least one a batch, and the original tokens.

    15 % of the tokens are predicted: 80 % of them read as <mask>, 10 % as a random piece. Every
    batch draws its own tokens, from the seed and the batch's number.
    Reference: BERT (Devlin et al., 2019), section 3.1, https://arxiv.org/abs/1810.04805
    """
    inputs, symbols = encoded.inputs(number, part_EP), encoded.symbols
    assert symbols.mask is not None
    ids_EN, rng = inputs["input_ids"].numpy(), np.random.default_rng((encoded.seed, number))
    lot_EN = np.where(np.isin(ids_EN, symbols.usual), rng.random(ids_EN.shape), np.inf)
    is_chosen_EN = np.isfinite(lot_EN) & (lot_EN <= max(SHARE_PREDICTED, lot_EN.min()))
    kind_EN = rng.random(ids_EN.shape)
    random_EN = rng.choice(symbols.usual, ids_EN.shape)
    stand_in_EN = np.where(kind_EN < SHARE_MASK + SHARE_RANDOM, random_EN, ids_EN)
    stand_in_EN = np.where(kind_EN < SHARE_MASK, symbols.mask, stand_in_EN)
    return inputs | {
        "input_ids": torch.from_numpy(np.where(is_chosen_EN, stand_in_EN, ids_EN)),
        "labels": torch.from_numpy(np.where(is_chosen_EN, ids_EN, IGNORED)),
    }


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


@final
@dataclass(frozen=True)
class Objective:
    """One way to train the architecture; `name` is the name of its task."""

    name: str
    read: Callable[[Data, Columns | None], Rows]
    """Function that reads files into rows."""
    model: Callable[[ModelRecipe, PreTrainedTokenizerBase, int], PreTrainedModel]
    """Function that makes a fresh model from a recipe, a vocabulary and a seed."""
    collate: Collate
    """Function that makes batches."""
    metric: str
    """Name of the task's score on the development set, which compares checkpoints."""
    higher_is_better: bool = False
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
            translation_batch,
            "bleu",
            True,
            {"num_beams": 1},
        ),
        Objective("masked-lm", read_texts, masked_model, masked_batch, "perplexity"),
        Objective("causal-lm", read_texts, causal_model, causal_batch, "perplexity"),
    )
}
