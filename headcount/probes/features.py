"""Word-level features: what probes read, written once to disk in one pass over a treebank.

Attention between words: keys of a word's pieces are summed, queries averaged. The special tokens
before the sentence are one more word, those after it another; a model without them has zeros there.
A hidden state of a word is the mean over its pieces.

Features are float16 in a memory map whose size is known before the model runs: num_heads (n + 2)^2
numbers for the attention of a sentence of n words, num_states x width x n for its states.

Reference: What Does BERT Look At? (Clark et al., 2019), section 4.1, https://arxiv.org/abs/1906.04341
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Float16, Int64
from torch import Tensor

from headcount.core import Float16File
from headcount.probes.treebank import ProbeSentence

NUM_SLOTS = 2
"""Number of places for special tokens beside the words: those before and those after them."""

BEFORE, AFTER = 0, 1
"""The places of the special tokens, counted from the number of words."""


@final
class WordMaps(Float16File):
    """The attention of all heads between the words of every sentence, on disk.

    Args:
        path: the file.
        lengths: number of words of each sentence.
        num_heads: number of heads.
    """

    def __init__(self, path: Path, lengths: Sequence[int], num_heads: int) -> None:
        self.lengths, self.num_heads = np.asarray(lengths, dtype=np.int64), num_heads
        sizes = (self.lengths + NUM_SLOTS) ** 2 * num_heads
        self._starts = np.concatenate([[0], sizes.cumsum()])
        super().__init__(path, int(self._starts[-1]))

    def of(self, sentence: int) -> Float16[np.ndarray, "query key head"]:
        """The map of one sentence: its words, then the special tokens before and after it."""
        start, stop = self._starts[sentence : sentence + 2]
        size = int(self.lengths[sentence]) + NUM_SLOTS
        return self.numbers[start:stop].reshape(size, size, self.num_heads)

    def batch(self, sentences: Sequence[int]) -> Float[Tensor, "batch query key head"]:
        """The maps of some sentences, padded with zeros; special tokens come last."""
        longest = int(self.lengths[list(sentences)].max())
        size = longest + NUM_SLOTS
        maps_BNNH = np.zeros((len(sentences), size, size, self.num_heads), dtype=np.float32)
        for row, sentence in enumerate(sentences):
            place = slots(int(self.lengths[sentence]), longest)
            maps_BNNH[row][np.ix_(place, place)] = self.of(sentence)
        return torch.from_numpy(maps_BNNH)


@final
class WordStates(Float16File):
    """The hidden states of the words of every sentence, on disk.

    Args:
        path: the file.
        lengths: number of words of each sentence.
        num_states: number of hidden states of a word, one more than there are layers.
        width: size of a state.
    """

    def __init__(self, path: Path, lengths: Sequence[int], num_states: int, width: int) -> None:
        self.lengths = np.asarray(lengths, dtype=np.int64)
        self.starts = np.concatenate([[0], self.lengths.cumsum()])
        self.num_states, self.width = num_states, width
        super().__init__(path, num_states, int(self.starts[-1]), width)

    def of(self, sentence: int) -> Float16[np.ndarray, "state word width"]:
        """The states of one sentence."""
        return self.numbers[:, self.starts[sentence] : self.starts[sentence + 1]]

    def of_all(self, state: int) -> Float16[np.ndarray, "word width"]:
        """One hidden state of all words, sentence after sentence."""
        return self.numbers[state]

    def of_words(
        self, word_N: Int64[np.ndarray, " word"]
    ) -> Float16[np.ndarray, "state word width"]:
        """All hidden states of some words, by their numbers in all sentences."""
        return self.numbers[:, word_N]


@final
@dataclass(frozen=True, eq=False)
class Features:
    """What probes read of one treebank."""

    folder: Path
    """Folder of their files."""
    sentences: tuple[ProbeSentence, ...]
    maps: WordMaps | None = None
    """Attention; None if no probe reads it."""
    states: WordStates | None = None
    """Hidden states; None if no probe reads them."""

    @property
    def num_bytes(self) -> int:
        """Size on disk."""
        return sum(each.num_bytes for each in (self.maps, self.states) if each is not None)


def slots(length: int, longest: int) -> Int64[np.ndarray, " place"]:
    """Places of a sentence's words and special tokens in a batch whose longest has `longest`.

    >>> slots(2, 5).tolist()
    [0, 1, 5, 6]
    """
    return np.concatenate([np.arange(length), longest + np.arange(NUM_SLOTS)])
