"""Census: what a corpus contains, counted in one cheap pass."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import final

import numpy as np
from jaxtyping import Int64

from headcount.core import amount
from headcount.corpora.frequencies import Frequencies
from headcount.corpora.sentence import Encoded, Sentence
from headcount.results import Counts

MOST_NAMED = 3
"""Largest number of sentences that a warning names."""
MOST_UNKNOWN = 0.01
"""Largest share of unknown tokens among content tokens without a warning."""


@final
@dataclass(frozen=True)
class Named:
    """A number of sentences, and where the first of them are."""

    count: int = 0
    origins: tuple[str, ...] = ()

    def add(self, origins: Iterable[str]) -> "Named":
        """With the sentences at some places, of which the names of files are kept."""
        more = [PurePath(origin).name for origin in origins]
        return self + Named(len(more), (*more[:MOST_NAMED],))

    def __add__(self, other: "Named") -> "Named":
        return Named(self.count + other.count, (*self.origins, *other.origins)[:MOST_NAMED])

    def __str__(self) -> str:
        rest = ", ..." if self.count > len(self.origins) else ""
        return f"{self.count:,} ({', '.join(self.origins)}{rest})"


@final
@dataclass(frozen=True)
class Misread:
    """Sentences of treebanks that are read in another way than the others."""

    differing: Named = Named()
    """Sentences whose own text has other letters than their words."""
    unmapped: Named = Named()
    """Sentences whose words could not be laid over the tokenizer's pieces."""

    def add(self, sentences: Sequence[Sentence], encoded: Sequence[Encoded]) -> "Misread":
        """With some more sentences."""
        pairs = zip(sentences, encoded, strict=True)
        return Misread(
            self.differing.add(each.origin for each in sentences if each.differs),
            self.unmapped.add(each.origin for each, one in pairs if not one.is_mapped),
        )

    def __add__(self, other: "Misread") -> "Misread":
        return Misread(self.differing + other.differing, self.unmapped + other.unmapped)

    def warnings(self) -> Iterator[str]:
        """A sentence for each kind."""
        if self.differing.count:
            yield (
                "sentences whose # text has other letters than their words, read as the words "
                f"are: {self.differing}"
            )
        if self.unmapped.count:
            yield (
                "sentences whose words can't be found in the tokenizer's pieces, so that nothing "
                f"is known of their words: {self.unmapped}"
            )


@final
@dataclass(frozen=True, eq=False)
class Census:
    """Counts over a corpus as one tokenizer reads it; tokens include special ones, not padding."""

    counts: Counts
    """Amounts that are read, truncated, left out and read in windows."""
    longest_target: int
    """Number of tokens of the longest target after truncation."""
    relations: tuple[str, ...]
    """Every relation in the trees, sorted, without the root arc."""
    baseline_offsets: Mapping[str, int]
    """Most frequent offset head - dependent of each relation, in words, in the first half of the
    corpus (see `halves`); the nearest in a tie."""
    source_counts: Int64[np.ndarray, " source_id"]
    """Number of times each token id is a content token of a source."""
    target_counts: Int64[np.ndarray, " target_id"]
    """Number of times each token id is a content token of a target."""
    sha256: str
    """Hash of the bytes of the corpus."""
    num_unknown: int = 0
    """Number of content tokens of both sides that are the tokenizer's unknown token."""
    misread: Misread = Misread()
    """Sentences of treebanks whose words do not fit their text or the tokenizer's pieces."""
    text_hashes: Int64[np.ndarray, " text"] = field(default_factory=lambda: np.zeros(0, np.int64))
    """Hashes of the different texts, the smallest first; at most `MOST_TEXTS`."""
    parts: tuple[int, ...] = ()
    """Number of sentences of each part of the corpus."""

    @property
    def longest(self) -> int:
        """Number of tokens of the longest side after truncation."""
        return max(self.counts.longest, self.longest_target)

    @property
    def num_rows(self) -> int:
        """Number of rows in all batches."""
        return self.counts.sentences - self.counts.windowed + self.counts.windows

    @property
    def source_frequencies(self) -> Frequencies:
        """Frequencies of the source tokens."""
        return Frequencies.of_counts(self.source_counts)

    @property
    def target_frequencies(self) -> Frequencies:
        """Frequencies of the target tokens."""
        return Frequencies.of_counts(self.target_counts)

    def warnings(self, limit: int | None) -> Iterator[str]:
        """Warnings about long sentences, unknown tokens, and words that do not fit the text."""
        if self.counts.truncated:
            yield (
                f"sentences longer than the model's limit of {limit} tokens, truncated: "
                f"{self.counts.truncated:,} of {self.counts.sentences:,}"
            )
        if self.counts.windowed:
            yield (
                f"sentences longer than a window of {limit} tokens, read in windows: "
                f"{self.counts.windowed:,} of {self.counts.sentences:,}, in "
                f"{amount(self.counts.windows, 'window')}"
            )
        num_content = int(self.source_counts.sum() + self.target_counts.sum())
        if self.num_unknown > MOST_UNKNOWN * num_content:
            yield (
                f"tokens that the model does not know: {self.num_unknown:,} of {num_content:,}. "
                "Check that the corpus is in a language of the model"
            )
        yield from self.misread.warnings()

    def arc_warnings(self) -> Iterator[str]:
        """Warnings about arcs and words of treebanks that are not counted."""
        if self.counts.words_cut or self.counts.words_lost:
            cut = "longer than a window" if self.counts.windowed else "cut off by truncation"
            yield (
                "dependency arcs are not counted for "
                f"{amount(self.counts.words_cut, 'word')} {cut} and "
                f"{amount(self.counts.words_lost, 'word')} without a piece in the model's "
                "vocabulary"
            )
        if self.counts.out_of_reach:
            yield (
                "dependency arcs between words without a common window, not counted: "
                f"{self.counts.out_of_reach:,}"
            )
        if self.counts.arcs_inside:
            yield (
                "dependency arcs between words that share the model's pieces, not counted: "
                f"{self.counts.arcs_inside:,}"
            )
