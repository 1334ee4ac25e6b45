"""Layout: where the words of a sentence stand in its running text, and what pieces share.

A treebank's words are not what is written: "didn't bark," has the words `did n't bark ,`, and the
German "zum" is one token of two words, `zu dem`. A model reads the text as it is written, so words
are laid over the text, and the text's pieces over the words. Words that share a piece ("did" and
"n't" if a piece is "didn"), and all words of a multiword token, are *merged*: they have all of
their pieces in common, and nothing can tell them apart.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise
from typing import final

from headcount.corpora.sentence import NO_WORD, Sentence, Span

WORD = re.compile(r"\w+(?:-\w+)*|['’]\w+|[^\w\s]")
"""Pattern of the words of a text that has none."""


def located(text: str, tokens: Sequence[str]) -> tuple[Span, ...] | None:
    """Where the tokens stand in a text; None if the text has other letters than they have.

    White space does not count: it may be anywhere, and of any length.

    >>> located("She didn't.", ["She", "did", "n't", "."])
    ((0, 3), (4, 7), (7, 10), (10, 11))
    """
    places = [place for place, letter in enumerate(text) if not letter.isspace()]
    letters = ["".join(token.split()) for token in tokens]
    if "".join(letters) != "".join(text[place] for place in places):
        return None
    ends = [*accumulate(map(len, letters), initial=0)]
    edges = [0, *(place + 1 for place in places)]
    return tuple(
        (places[start], edges[end]) if start < end else (edges[start], edges[start])
        for start, end in pairwise(ends)
    )


def joined(words: Sequence[str]) -> tuple[str, tuple[Span, ...]]:
    """The words joined by spaces, and where each stands."""
    ends = accumulate(len(word) + 1 for word in words)
    return " ".join(words), tuple(
        (end - 1 - len(word), end - 1) for word, end in zip(words, ends, strict=True)
    )


def as_words(sentence: Sentence) -> Sentence:
    """The sentence with its words joined by spaces in place of the text as it is written."""
    if sentence.words is None:
        return sentence
    return replace(sentence, text=" ".join(sentence.words), spans=None, differs=False)


def as_written(sentence: Sentence) -> Sentence:
    """The sentence with the places of its words, which are looked for in its text.

    If the text has other letters than the words, it is replaced by the words joined by spaces.
    """
    if sentence.words is None or sentence.spans is not None:
        return sentence
    spans = located(sentence.text, sentence.words)
    if spans is None:
        return replace(as_words(sentence), differs=True)
    return replace(sentence, spans=spans)


def in_one_line(sentences: Sequence[Sentence]) -> Sentence:
    """Sentences of one text, with spaces between them."""
    layouts = [Layout.of(each) for each in sentences]
    starts = accumulate((len(each.text) + 1 for each in layouts), initial=0)
    text = " ".join(each.text for each in layouts)
    words = tuple(chain.from_iterable(each.words or () for each in sentences))
    spans = tuple(
        (start + first, start + last)
        for start, each in zip(starts, layouts, strict=False)
        for first, last in each.spans
    )
    return Sentence(text, words, origin=sentences[0].origin, spans=spans)


@final
@dataclass(frozen=True)
class Layout:
    """The words of one sentence, laid over its text.

    Args:
        text: the running text.
        spans: where each word stands, in order; the words of a multiword token stand at one place.
    """

    text: str
    spans: tuple[Span, ...]

    @classmethod
    def of(cls, sentence: Sentence) -> "Layout":
        """The layout of a sentence; words without places are joined by spaces."""
        if sentence.spans is None:
            return cls(*joined(sentence.words or ()))
        return cls(sentence.text, sentence.spans)

    @classmethod
    def split(cls, text: str, pattern: re.Pattern[str] = WORD) -> "Layout":
        """The layout of a text whose words are what a pattern matches."""
        return cls(text, tuple(match.span() for match in pattern.finditer(text)))

    @property
    def words(self) -> tuple[str, ...]:
        """The words as they are written."""
        return tuple(self.text[start:end] for start, end in self.spans)

    def words_of(self, pieces: Sequence[Span]) -> list[range]:
        """The words of each piece of the text, of which all pieces have one at least.

        A piece of white space alone belongs to the word after it, or else to the last one.
        """
        first_at, last_at = self._words_at()
        after, following = [len(self.spans) - 1] * (len(self.text) + 1), len(self.spans) - 1
        for place in reversed(range(len(self.text))):
            following = first_at[place] if first_at[place] != NO_WORD else following
            after[place] = following
        found = []
        for start, end in pieces:
            touched = [place for place in range(start, end) if first_at[place] != NO_WORD]
            if touched:
                found.append(range(first_at[touched[0]], last_at[touched[-1]] + 1))
            else:
                word = after[min(end, len(self.text))]
                found.append(range(word, word + 1))
        return found

    def merged(self, words: Sequence[range]) -> list[int] | None:
        """Number of the merged word that each word is part of; None if no two are merged.

        Args:
            words: the words of each piece.
        """
        is_joined = [False, *(a == b and a[0] < a[1] for a, b in pairwise(self.spans))]
        for its in words:
            for word in its[1:]:
                is_joined[word] = True
        if not any(is_joined):
            return None
        return [*accumulate((not each for each in is_joined[1:]), initial=0)]

    def _words_at(self) -> tuple[list[int], list[int]]:
        """The first and the last word at each character, -1 for white space."""
        first_at, last_at = [NO_WORD] * len(self.text), [NO_WORD] * len(self.text)
        for word, (start, end) in enumerate(self.spans):
            for place in range(start, end):
                if not self.text[place].isspace():
                    last_at[place] = word
                    if first_at[place] == NO_WORD:
                        first_at[place] = word
        return first_at, last_at
