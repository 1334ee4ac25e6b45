"""One example of a corpus, whatever its file format.

Treebanks as they are written: where the words stand in the running text, and what pieces share.

A treebank's words are not what is written: "didn't bark," has the words `did n't bark ,`, and the
German "zum" is one token of two words, `zu dem`. A model reads the text as it is written, so words
are laid over the text, and the text's pieces over the words. Words that share a piece ("did" and
"n't" if a piece is "didn"), and all words of a multiword token, are *merged*: they have all of
their pieces in common, and nothing can tell them apart.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, compress, pairwise
from pathlib import Path
from typing import TypeVar, final

from headcount.core import CorpusError, InputError, check_unicode
from headcount.vocabulary import ALL, IMAGES, SOUND, TEXTS, Inputs

T = TypeVar("T")

WORD = re.compile(r"\w+(?:-\w+)*|['’]\w+|[^\w\s]")
"""Pattern of the words of a text that has none."""

Span = tuple[int, int]
"""First character of a stretch of text, and the one after its last."""


@dataclass(frozen=True)
class Tree:
    """A dependency tree over the words of one sentence."""

    heads: tuple[int, ...]
    """0-based index of each word's head, -1 for the root."""
    relations: tuple[str, ...]
    """Relation of each word to its head as the treebank writes it, with subtypes."""
    tags: tuple[str, ...]
    """Universal part of speech of each word."""


@final
@dataclass(frozen=True)
class Link:
    """A relation between words of one sentence: from a query to keys, any of which is right.

    Raises:
        InputError: if it has no name, or that of all relations, or no key.
    """

    name: str
    """Name of the relation, e.g. `negation`."""
    query: int
    """0-based index of the word from which a head looks."""
    keys: tuple[int, ...]
    """Indices of the words that are right."""
    candidates: tuple[int, ...] = field(default=(), repr=False)
    """Indices of the words among which a key is chosen; every word if there are none."""

    def __post_init__(self) -> None:
        if not self.name or self.name == ALL or not self.keys:
            what = f"the name {self.name!r}" if self.keys else "no key"
            raise InputError(
                f"Expected a link with a name other than {ALL!r} and with one key or several, got "
                f"{what}. Rename the relation, or leave the link out."
            )

    @property
    def words(self) -> tuple[int, ...]:
        """The query and the keys."""
        return self.query, *self.keys

    @property
    def compared(self) -> tuple[int, ...]:
        """The query, the keys and the candidates in order; empty if all words are compared."""
        return (*sorted({*self.words, *self.candidates}),) if self.candidates else ()

    def offset(self, key: int) -> int:
        """How far a key is behind the query: in words, or only in those that are compared.

        >>> Link("subject", 4, (1,)).offset(1), Link("subject", 4, (1,), (1, 3)).offset(1)
        (-3, -2)
        """
        words = self.compared
        return words.index(key) - words.index(self.query) if words else key - self.query


@final
@dataclass(frozen=True)
class Shown:
    """A picture or a recording beside a text."""

    path: Path
    digest: str
    """SHA-256 of the file."""
    problem: str = ""
    """Why it can't be used, which matters to a model of pictures alone; empty if it can."""
    is_sound: bool = False
    """Whether it is a recording."""

    @property
    def label(self) -> str:
        """The word that stands for its tokens."""
        return HEARD if self.is_sound else PICTURE


PICTURE, HEARD = "(picture)", "(recording)"
"""Labels of the tokens of a picture and of a recording."""

Box = tuple[float, float, float, float]
"""Left, top, right and bottom of a part of a picture, in pixels."""


@final
@dataclass(frozen=True)
class Place:
    """A relation from a phrase of a text to boxes of a picture beside it, any of which is right."""

    name: str
    """Name of the relation."""
    phrase: str
    """The phrase, of which the text's first occurrence is meant."""
    boxes: tuple[Box, ...]
    picture: int = 0
    """Number of the picture, from 0."""


@final
@dataclass(frozen=True)
class Clip:
    """A file of sound, or a piece of one."""

    path: Path
    start: float = 0.0
    """Second of the file at which it begins."""
    seconds: float | None = None
    """Its length, if it is a piece."""


@dataclass(frozen=True)
class Sentence:
    """Text, with its treebank words, other side or second sentence if it has them; or an image.

    A recording has its transcript as target.

    Raises:
        InputError: if a text holds half of a character.
    """

    text: str
    """Running text, for a treebank as it is written; for an image or sound, its SHA-256."""
    words: tuple[str, ...] | None = None
    """The treebank's words; None for running text."""
    tree: Tree | None = None
    """The dependency tree over the words."""
    target: str | None = None
    """The other side of a parallel text."""
    second: str | None = None
    """The second sentence of a pair that an encoder reads as one input."""
    origin: str = "<python>"
    """File and line, for errors: `file.conllu:17`."""
    messages: str | None = None
    """The messages of a chat as JSON, whose contents are the text; None for any other text."""
    image: Path | None = None
    """File of an image, for models that read pixels; None for a text."""
    spans: tuple[Span, ...] | None = None
    """Where each word stands in the text, and the words of a multiword token at one place; None if
    the words are read joined by spaces, whatever the text is (see `written`)."""
    differs: bool = False
    """Whether a treebank's own text has other letters than its words, and so is not read."""
    links: tuple[Link, ...] = ()
    """Further relations between the words."""
    sound: Clip | None = None
    """Sound, for models that read spectrograms."""
    pictures: tuple[Shown, ...] = ()
    """Pictures beside a text, in the order of their placeholders."""
    places: tuple[Place, ...] = ()
    """Relations from its phrases to boxes of its pictures."""

    def __post_init__(self) -> None:
        for text in (self.text, self.target, self.second, *(self.words or ())):
            check_unicode(text or "", "a text", f"{self.origin}: ")

    @property
    def inputs(self) -> Inputs:
        """The kind of input that it is."""
        if self.sound is not None:
            return SOUND
        return TEXTS if self.image is None else IMAGES

    def check_is(self, read: Inputs) -> None:
        """Check that a model reads sentences of this kind.

        Raises:
            CorpusError: if it is not.
        """
        got = self.inputs
        if got is not read:
            raise CorpusError(
                f"{self.origin}: expected {read.one}, since the model reads {read.unit}s, got "
                f"{got.one}. Give {read.unit}s, or a model that reads {got.unit}s."
            )

    def form(self, words: Sequence[int]) -> str:
        """How neighbouring words of a treebank are written."""
        assert self.words is not None
        if self.spans is None:
            return " ".join(self.words[word] for word in words)
        return self.text[self.spans[words[0]][0] : self.spans[words[-1]][1]]


NO_WORD = -1


@dataclass(frozen=True)
class Encoded:
    """One side of one sentence as the model will see it."""

    ids: list[int]
    """Token ids, special tokens included."""
    word_of: list[int]
    """Index of the word of each token; -1 for special tokens and for text without words. Merged
    words count as one, see `merged`."""
    is_special: list[bool]
    """True for tokens added by the tokenizer; an unknown word is content."""
    full_length: int
    """Number of tokens before truncation."""
    num_words_cut: int = 0
    """Number of words that truncation removed completely."""
    num_words_lost: int = 0
    """Number of words that the tokenizer turns into no piece at all."""
    type_ids: list[int] | None = None
    """Token types of a pair by the tokenizer's template; None for a single sentence."""
    is_measured: list[bool] | None = None
    """False for the context at the beginning of a window; None if this is no window."""
    first_token: int = 0
    """Number of tokens that are measured in the earlier windows of the text."""
    num_windows: int = 1
    """Number of windows that the text is read in."""
    merged: list[int] | None = None
    """Index in `word_of` of each word of the treebank, where some share pieces (see `written`);
    None if none do."""
    is_mapped: bool = True
    """False if a treebank's words could not be laid over the pieces, so that no token has one."""
    num_repeated: int = 0
    """Number of tokens that the text begins or ends with itself, left out because the tokenizer
    puts them there."""
    roles: list[str | None] | None = None
    """Role whose message each token of a chat belongs to; None for the template's own tokens."""
    num_thoughts: int = 0
    """Number of thoughts of a chat's earlier replies that the template leaves out."""
    is_picture: list[bool] | None = None
    """True for tokens that stand for a part of a picture, or of a recording; None without any."""
    regions: Sequence[Box | None] = ()
    """Where each of these lies in its picture, as shares of width and height; None where that is
    not known, and nothing if it is known of none."""

    def place(self, word: int) -> int:
        """Index in `word_of` of a word of the treebank; -1 for the root's head."""
        return word if self.merged is None or word < 0 else self.merged[word]

    def words_at(self, num_words: int) -> dict[int, list[int]]:
        """The words of the treebank, of which there are some number, at each index of `word_of`."""
        found: dict[int, list[int]] = {}
        for word in range(num_words):
            found.setdefault(self.place(word), []).append(word)
        return found

    @property
    def words_here(self) -> tuple[set[int], set[int]]:
        """The words that have a piece here, and those that are measured here."""
        present = {*self.word_of}
        return present, present if self.is_measured is None else {*self.measured(self.word_of)}

    @property
    def num_before(self) -> int:
        """Number of special tokens before the content; all tokens if there is none."""
        return self.is_special.index(False) if False in self.is_special else len(self.ids)

    @property
    def truncated(self) -> bool:
        """Whether the sentence was too long for the model."""
        return len(self.ids) < self.full_length

    def measured(self, values: Sequence[T]) -> list[T]:
        """The values of the tokens that are measured here, one value per token given."""
        return [*values] if self.is_measured is None else [*compress(values, self.is_measured)]


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
