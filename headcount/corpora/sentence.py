"""One example of a corpus, whatever its file format."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import TypeVar, final

from headcount.core import CorpusError, InputError, check_unicode
from headcount.vocabulary import ALL, IMAGES, SOUND, TEXTS, Inputs

T = TypeVar("T")


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
