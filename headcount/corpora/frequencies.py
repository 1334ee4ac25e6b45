"""Token frequencies, and the positions of the rarest tokens of a sentence.

rank(token) = its place, from 0, when tokens are sorted by (-count, id); unseen tokens come last.
A token of rank >= 500 is rare ("outside the top 500").

Reference: Analyzing Multi-Head Self-Attention (Voita et al., 2019), section 5.3,
https://arxiv.org/abs/1905.09418
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np
from jaxtyping import Bool, Int64

from headcount.core import CorpusError
from headcount.corpora.lines import numbered_lines

if TYPE_CHECKING:
    from headcount.corpora.encoder import Encoder

NUM_COMMON = 500
NOWHERE = -1
WORDS_AT_ONCE = 10_000


@final
@dataclass(frozen=True, eq=False)
class Frequencies:
    """Counts by token id, and the ranks derived from them."""

    counts_V: Int64[np.ndarray, " id"]
    ranks_V: Int64[np.ndarray, " id"]

    @property
    def sha256(self) -> str:
        """Hash of the counts."""
        return hashlib.sha256(self.counts_V.tobytes()).hexdigest()

    @classmethod
    def of_counts(cls, counts_V: Int64[np.ndarray, " id"]) -> "Frequencies":
        """Rank token ids by their counts."""
        ranks_V = np.empty(len(counts_V), dtype=np.int64)
        ranks_V[np.argsort(-counts_V, kind="stable")] = np.arange(len(counts_V))
        return cls(counts_V, ranks_V)

    @classmethod
    def from_file(cls, path: str | Path, encoder: "Encoder") -> "Frequencies":
        """Read `word count` lines; the count of a word is added to each of its pieces."""
        words: list[str] = []
        counts: list[int] = []
        total_V = np.zeros(0, dtype=np.int64)
        for word, count in _words_and_counts(path):
            words.append(word)
            counts.append(count)
            if len(words) == WORDS_AT_ONCE:
                total_V = add_counts(total_V, _piece_counts(words, counts, encoder))
                words, counts = [], []
        total_V = add_counts(total_V, _piece_counts(words, counts, encoder))
        if not total_V.any():
            raise _no_counts(path)
        return cls.of_counts(total_V)

    def counts(self, ids: Int64[np.ndarray, "..."]) -> Int64[np.ndarray, "..."]:
        """Count of each token."""
        return _look_up(self.counts_V, ids, 0)

    def is_rare(
        self, ids: Int64[np.ndarray, "..."], num_common: int = NUM_COMMON
    ) -> Bool[np.ndarray, "..."]:
        """Whether each token is not among the `num_common` most common ones."""
        return _look_up(self.ranks_V, ids, np.iinfo(np.int64).max) >= num_common

    def rarest(
        self,
        ids_BN: Int64[np.ndarray, "batch token"],
        is_content_BN: Bool[np.ndarray, "batch token"],
        num_common: int = NUM_COMMON,
    ) -> Int64[np.ndarray, "batch 2"]:
        """Positions of the rarest and second rarest content token; the earlier first in a tie.

        (-1, -1) if there is no content or even the rarest token is among the `num_common` most
        common ones. The second is -1 if there is only one content token.
        """
        if ids_BN.shape[1] < 2:
            pad = ((0, 0), (0, 2 - ids_BN.shape[1]))
            ids_BN, is_content_BN = np.pad(ids_BN, pad), np.pad(is_content_BN, pad)
        never = np.iinfo(np.int64).max
        counts_BN = np.where(is_content_BN, self.counts(ids_BN), never)
        rarest_B2 = np.argsort(counts_BN, axis=1, kind="stable")[:, :2]
        is_content_B2 = np.take_along_axis(is_content_BN, rarest_B2, axis=1)
        rarest_id_B = np.take_along_axis(ids_BN, rarest_B2[:, :1], axis=1)[:, 0]
        is_rare_B = self.is_rare(rarest_id_B, num_common)
        return np.where(is_content_B2 & is_rare_B[:, None], rarest_B2, NOWHERE)


def add_counts(
    left_V: Int64[np.ndarray, " id"], right_V: Int64[np.ndarray, " other"]
) -> Int64[np.ndarray, " longer"]:
    """Add counts of different lengths; missing ids count as 0."""
    longer_V, shorter_V = (left_V, right_V) if len(left_V) >= len(right_V) else (right_V, left_V)
    total_V = longer_V.copy()
    total_V[: len(shorter_V)] += shorter_V
    return total_V


def _look_up(
    table_V: Int64[np.ndarray, " id"], ids: Int64[np.ndarray, "..."], unseen: int
) -> Int64[np.ndarray, "..."]:
    padded_V = np.append(table_V, unseen)
    return padded_V[np.minimum(ids, len(table_V))]


def _piece_counts(
    words: list[str], counts: list[int], encoder: "Encoder"
) -> Int64[np.ndarray, " id"]:
    pieces = encoder.single_words(words)
    ids = np.array([token for of_word in pieces for token in of_word], dtype=np.int64)
    lengths = [len(of_word) for of_word in pieces]
    total_V = np.zeros(ids.max(initial=-1) + 1, dtype=np.int64)
    np.add.at(total_V, ids, np.repeat(np.array(counts, dtype=np.int64), lengths))
    return total_V


def check_frequencies(path: str | Path) -> None:
    """Check the lines of a file of frequencies.

    Raises:
        CorpusError: for a line that is no word with a count, or without any count above 0.
    """
    if not sum(count for _, count in _words_and_counts(path)):
        raise _no_counts(path)


def _no_counts(path: str | Path) -> CorpusError:
    return CorpusError(f"Expected lines `word count` in {path}, got none. Check the file.")


def _words_and_counts(path: str | Path) -> Iterator[tuple[str, int]]:
    for number, line in numbered_lines(Path(path)):
        if line.strip():
            yield _word_and_count(line, f"{path}:{number}")


def _word_and_count(line: str, origin: str) -> tuple[str, int]:
    columns = line.rsplit(maxsplit=1)
    if len(columns) != 2 or not (columns[1].isascii() and columns[1].isdigit()):
        raise CorpusError(
            f"{origin}: expected a word and its count (`house 1234`), got {line.strip()!r}. "
            "Fix the line."
        )
    return columns[0], int(columns[1])
