"""Batches of a translation model: source, target moved one to the right, and target."""

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from headcount.tasks.likelihood import IGNORED
from headcount.tasks.padding import padded, text_inputs


@final
@dataclass(frozen=True)
class TranslationExamples:
    """Token ids of all pairs."""

    sources: list[list[int]]
    targets: list[list[int]]
    pad_id: int
    start_id: int
    """What the decoder begins with."""

    @classmethod
    def of(
        cls, pairs: list[tuple[str, str]], tokenizer: PreTrainedTokenizerFast, max_length: int
    ) -> "TranslationExamples":
        """Encode pairs; those with a side longer than `max_length` tokens are left out."""
        sources, targets = (
            tokenizer([pair[side] for pair in pairs], verbose=False)["input_ids"] for side in (0, 1)
        )
        kept = [
            row for row in zip(sources, targets, strict=True) if max(map(len, row)) <= max_length
        ]
        return cls(
            [source for source, _ in kept], [target for _, target in kept],
            tokenizer.pad_token_id, tokenizer.eos_token_id,
        )  # fmt: skip

    @property
    def length_N2(self) -> Int[np.ndarray, "example 2"]:
        """Tokens of both sides."""
        return np.array([list(map(len, self.sources)), list(map(len, self.targets))]).T

    def collate(self, index_E: Int[np.ndarray, " example"]) -> dict[str, Tensor]:
        """The model's inputs, with labels that are -100 at padding."""
        labels_EN = padded([self.targets[index] for index in index_E], IGNORED)
        shifted_EN = labels_EN.roll(1, 1).masked_fill(labels_EN.roll(1, 1) == IGNORED, self.pad_id)
        shifted_EN[:, 0] = self.start_id
        return text_inputs([self.sources[index] for index in index_E], self.pad_id) | {
            "decoder_input_ids": shifted_EN,
            "decoder_attention_mask": (labels_EN != IGNORED).to(torch.int64),
            "labels": labels_EN,
        }
