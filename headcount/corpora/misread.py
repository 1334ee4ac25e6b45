"""Misread: texts and sentences that are read in another way than they are written, and warnings.

A sentence of a treebank may have a text with other letters than its words, or the tokenizer's
pieces may hide where its words are. A text may begin with a token that the tokenizer puts there.
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


@final
@dataclass(frozen=True)
class Noted:
    """Numbers of texts that are read in another way than they are written."""

    repeated: int = 0
    """Texts that begin or end themselves with tokens that the tokenizer puts there."""
    thoughts: int = 0
    """Thoughts of chats that the template leaves out."""

    @classmethod
    def of(cls, encoded: Iterable[Encoded]) -> "Noted":
        """The numbers of some texts."""
        texts = [one for one in encoded if one.first_token == 0]
        repeated = sum(one.num_repeated > 0 for one in texts)
        return cls(repeated, sum(one.num_thoughts for one in texts))

    def __add__(self, other: "Noted") -> "Noted":
        return Noted(self.repeated + other.repeated, self.thoughts + other.thoughts)

    def warnings(self) -> Iterator[str]:
        """A sentence for each number that is not 0."""
        if self.repeated:
            yield (
                "texts that begin or end with a token that the tokenizer puts there itself, which "
                f"is read once: {self.repeated:,}"
            )
        if self.thoughts:
            yield (
                "thoughts in earlier replies of chats that the chat template leaves out: "
                f"{self.thoughts:,}"
            )
