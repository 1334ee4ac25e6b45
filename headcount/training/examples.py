"""Examples: token ids of the training text, and the batches that each objective makes of them.

Labels stand where they are predicted; -100 is not predicted.
"""

from dataclasses import dataclass
from typing import Protocol, final

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from headcount.errors import CorpusError
from headcount.tasks.likelihood import IGNORED
from headcount.tasks.masked import SHARE_MASK, SHARE_RANDOM
from headcount.tasks.padding import padded, text_inputs
from headcount.training.recipe import Recipe
from headcount.training.rows import Rows

SHARE_PREDICTED = 0.15
"""Of the tokens, in masked language modelling."""


class Examples(Protocol):
    """What an objective makes of the training text."""

    encoded: "Encoded"

    def collate(self, number: int, index_E: Int[np.ndarray, " example"]) -> dict[str, Tensor]:
        """The model's inputs with labels: batch `number` of the training, of these examples."""
        ...


@final
@dataclass(frozen=True)
class Encoded:
    """Token ids of every example's sides."""

    sides: list[list[list[int]]]
    """By side, then example."""
    tokenizer: PreTrainedTokenizerBase
    num_long: int
    """Examples left out because a side is longer than the recipe takes."""

    @property
    def length_NS(self) -> Int[np.ndarray, "example side"]:
        """Tokens of the sides."""
        return np.array([[len(ids) for ids in side] for side in self.sides]).T

    def inputs(self, index_E: Int[np.ndarray, " example"]) -> dict[str, Tensor]:
        """The first side as a model reads it."""
        return text_inputs([self.sides[0][index] for index in index_E], self.pad_id)

    @property
    def pad_id(self) -> int:
        """What fills a row."""
        return int(self.tokenizer.pad_token_id)


def encode(rows: Rows, tokenizer: PreTrainedTokenizerBase, recipe: Recipe) -> Encoded:
    """Encode rows; those with a side longer than the recipe takes are left out.

    Raises:
        CorpusError: if none is left.
    """
    sides = [tokenizer(texts, verbose=False)["input_ids"] for texts in rows.columns.values()]
    kept = [row for row in zip(*sides, strict=True) if max(map(len, row)) <= recipe.max_length]
    if not kept:
        raise CorpusError(
            f"expected examples of at most {recipe.max_length} tokens; all {len(rows.rows)} are "
            "longer: set the recipe's max_length higher, or split the lines"
        )
    return Encoded(
        [list(side) for side in zip(*kept, strict=True)], tokenizer, len(rows.rows) - len(kept)
    )


@final
@dataclass(frozen=True)
class TranslationExamples:
    """The target is predicted; the decoder reads it one place to the right, behind `</s>`."""

    encoded: Encoded
    seed: int

    def collate(self, number: int, index_E: Int[np.ndarray, " example"]) -> dict[str, Tensor]:
        """Sources, decoder inputs and labels."""
        labels_EN = padded([self.encoded.sides[1][index] for index in index_E], IGNORED)
        shifted_EN = labels_EN.roll(1, 1)
        shifted_EN[:, 0] = int(self.encoded.tokenizer.eos_token_id)
        return self.encoded.inputs(index_E) | {
            "decoder_input_ids": shifted_EN.masked_fill(shifted_EN == IGNORED, self.encoded.pad_id),
            "decoder_attention_mask": (labels_EN != IGNORED).to(torch.int64),
            "labels": labels_EN,
        }


@final
@dataclass(frozen=True)
class CausalExamples:
    """At every token the next one is predicted."""

    encoded: Encoded
    seed: int

    def collate(self, number: int, index_E: Int[np.ndarray, " example"]) -> dict[str, Tensor]:
        """Texts, and the same one place to the left."""
        inputs = self.encoded.inputs(index_E)
        is_token_EN = inputs["attention_mask"].bool()
        labels_EN = inputs["input_ids"].masked_fill(~is_token_EN, IGNORED).roll(-1, 1)
        labels_EN[:, -1] = IGNORED
        return inputs | {"labels": labels_EN}


@final
@dataclass(frozen=True)
class MaskedExamples:
    """15 % of the tokens are predicted: 80 % of them behind <mask>, 10 % behind a random piece.

    Every batch draws anew, from the seed and its number.
    Reference: BERT (Devlin et al., 2019), section 3.1, https://arxiv.org/abs/1810.04805
    """

    encoded: Encoded
    seed: int

    def collate(self, number: int, index_E: Int[np.ndarray, " example"]) -> dict[str, Tensor]:
        """Texts with masked tokens, and what they were; at least one a batch."""
        inputs = self.encoded.inputs(index_E)
        ids_EN = inputs["input_ids"].numpy()
        tokenizer = self.encoded.tokenizer
        content_EN = inputs["attention_mask"].numpy() * ~np.isin(ids_EN, tokenizer.all_special_ids)
        rng = np.random.default_rng((self.seed, number))
        lot_EN = np.where(content_EN, rng.random(ids_EN.shape), 1.0)
        predicted_EN = lot_EN <= max(SHARE_PREDICTED, float(lot_EN.min()))
        predicted_EN &= content_EN.astype(bool)
        kind_EN = rng.random(ids_EN.shape)
        usual = np.setdiff1d(np.arange(len(tokenizer)), tokenizer.all_special_ids)
        random_EN = rng.choice(usual, ids_EN.shape)
        stand_EN = np.where(kind_EN < SHARE_MASK + SHARE_RANDOM, random_EN, ids_EN)
        stand_EN = np.where(kind_EN < SHARE_MASK, int(tokenizer.mask_token_id), stand_EN)
        return inputs | {
            "input_ids": torch.from_numpy(np.where(predicted_EN, stand_EN, ids_EN)),
            "labels": torch.from_numpy(np.where(predicted_EN, ids_EN, IGNORED)),
        }
