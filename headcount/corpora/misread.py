"""Misread: sentences of treebanks that are read in another way than the others, and a warning.

A sentence's own text may have other letters than its words, or the tokenizer's pieces may hide
where its words are.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import final

from headcount.corpora.sentence import Encoded, Sentence

MOST_NAMED = 3
"""Largest number of sentences that a warning names."""


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
