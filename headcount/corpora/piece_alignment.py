"""Aligning the pieces of running text with its words.

All functions return the word index of each piece, or None if a piece fits no single word. White
space belongs to the word after it, as in `▁word`.
"""

import unicodedata
from collections.abc import Callable, Sequence

from headcount.core import CorpusError
from headcount.corpora.sentence import Sentence

WORD_MARKS = ("##", "▁", "</w>", "@@")
"""Marks that tokenizers add to a piece to show where words begin or end."""
MOST_SHOWN = 30
"""Largest number of pieces or words that an error lists."""


def words_one_by_one(
    words: Sequence[str], pieces: Sequence[str], tokenize: Callable[[str], list[str]]
) -> list[int] | None:
    """Tokenize word by word; None if that does not give the pieces of the complete sentence."""
    by_word = [tokenize(word) for word in words]
    if [piece for of_word in by_word for piece in of_word] != list(pieces):
        return None
    return [index for index, of_word in enumerate(by_word) for _ in of_word]


def words_by_offsets(words: Sequence[str], spans: Sequence[tuple[int, int]]) -> list[int] | None:
    """Word of each span [start, end) of the words joined by spaces."""
    word_at: list[int | None] = []
    for index, word in enumerate(words):
        word_at += [None if letter.isspace() else index for letter in word] + [None]
    found = []
    for start, end in spans:
        touched = {word for word in word_at[start:end] if word is not None}
        if len(touched) > 1:
            return None
        later = (word for word in word_at[end:] if word is not None)
        found.append(touched.pop() if touched else next(later, len(words) - 1))
    return found


def words_by_characters(
    words: Sequence[str], pieces: Sequence[str], unknown: str | None
) -> list[int] | None:
    """Match the letters of the words with the letters of the pieces, ignoring marks and case.

    Letters are compared after NFKD and lower-casing, which is what tokenizers' normalisers do. If
    that fails, they are compared as UTF-8 bytes (ByT5). An unknown piece matches the rest of its
    word.
    """
    by_letters = _follow([_letters(word) for word in words], pieces, unknown, _letters)
    if by_letters is not None:
        return by_letters
    utf_8 = [_bytes(word.encode().decode("latin-1")) for word in words]
    return _follow(utf_8, pieces, unknown, _bytes)


def _follow(
    words: Sequence[str],
    pieces: Sequence[str],
    unknown: str | None,
    letters_of: Callable[[str], str],
) -> list[int] | None:
    found: list[int] = []
    word, rest = -1, ""
    for piece in pieces:
        while not rest and word < len(words) - 1:
            word += 1
            rest = words[word]
        letters = rest if piece == unknown else _matched(piece, rest, letters_of)
        if letters is None:
            return None
        found.append(word)
        rest = rest.removeprefix(letters)
    return None if rest or any(words[word + 1 :]) else found


def _matched(piece: str, rest: str, letters_of: Callable[[str], str]) -> str | None:
    """The letters of a piece if the rest of the word begins with them, with or without marks."""
    bare = piece
    for mark in WORD_MARKS:
        bare = bare.removeprefix(mark).removesuffix(mark)
    for letters in (letters_of(piece), letters_of(bare)):
        if rest.startswith(letters):
            return letters
    return None


def _letters(text: str) -> str:
    """Decompose, since a letter and its accent may be in two pieces; drop invisible letters."""
    letters = unicodedata.normalize("NFKD", text).lower()
    return "".join(
        letter
        for letter in letters
        if not letter.isspace() and not unicodedata.category(letter).startswith("C")
    )


def _bytes(text: str) -> str:
    # Only the space itself is never part of a letter: U+0085 and U+00A0 are halves of letters here.
    return text.replace(" ", "")


def not_aligned(sentence: Sentence, pieces: Sequence[str]) -> CorpusError:
    """The error that says which pieces cannot be aligned with which words."""
    return CorpusError(
        f"{sentence.origin}: the tokenizer's pieces {_listed(pieces)} cannot be aligned with the "
        f"words {_listed(sentence.words or ())}. Give the sentence as running text, or use a "
        "model whose tokenizer does not merge words."
    )


def _listed(parts: Sequence[str]) -> str:
    shown = " ".join(map(repr, parts[:MOST_SHOWN]))
    return shown + " ..." if len(parts) > MOST_SHOWN else shown
