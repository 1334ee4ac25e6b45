"""One example of a corpus, whatever its file format."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import TypeVar

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


@dataclass(frozen=True)
class Sentence:
    """Text, with its treebank words, other side or second sentence if it has them; or an image."""

    text: str
    """Running text, for a treebank as it is written; for an image, its SHA-256."""
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
