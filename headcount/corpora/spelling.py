"""Spelling: where the pieces of a slow tokenizer stand in a text, and which are punctuation.

A slow tokenizer (Marian's, ByT5's) does not say itself where its pieces are. White space belongs to
the piece after it, as in `▁word`. Punctuation is a property of the token id, looked up once per id.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import final

import numpy as np
from jaxtyping import Bool, Int64

from headcount.core import CorpusError
from headcount.corpora.sentence import Sentence, Span

WORD_MARKS = ("##", "▁", "</w>", "@@")
"""Marks that tokenizers add to a piece to show where words begin or end."""
MOST_SHOWN = 30
"""Largest number of pieces or words that an error lists."""
SPACED = re.compile(r"\S+")

Letters = Iterator[tuple[str, int]]
"""Letters as they are compared, each with the place of its character in the text."""


def spans_of_pieces(
    text: str,
    pieces: Sequence[str],
    ids: Sequence[str],
    tokenize: Callable[[str], list[str]],
    unknown: str | None,
) -> list[Span] | None:
    """Where each piece stands in a text; None if its letters can't be followed.

    What spaces separate is tokenized by itself. If that gives the ids of the complete text, pieces
    are looked for inside it, and are all of it where their letters differ. Otherwise their letters
    are followed through the complete text.

    Args:
        text: the text.
        pieces: its pieces, as they are spelled.
        ids: its pieces, as `tokenize` names them.
        tokenize: names the pieces of a part of the text.
        unknown: how an unknown piece is spelled.
    """
    parts = list(SPACED.finditer(text))
    by_part = [tokenize(part[0]) for part in parts]
    if [*chain.from_iterable(by_part)] != [*ids]:
        return spans_by_letters(text, pieces, unknown)
    found, rest = list[Span](), iter(pieces)
    for part, its in zip(parts, by_part, strict=True):
        spelled = [next(rest) for _ in its]
        start = part.start()
        inside = spans_by_letters(part[0], spelled, unknown) or [(0, len(part[0]))] * len(its)
        found += [(start + first, start + last) for first, last in inside]
    return found


def spans_by_letters(text: str, pieces: Sequence[str], unknown: str | None) -> list[Span] | None:
    """Match the letters of a text with those of its pieces, ignoring marks and case.

    Letters are compared after NFKD and folding of case, which is what tokenizers' normalisers do.
    If that fails, they are compared as UTF-8 bytes (ByT5). An unknown piece matches the rest of
    what spaces separate, or, if that fails, as little as lets the next piece follow.
    """
    for letters_of, spell in ((_letters, _spelled), (_bytes, _spelled_in_bytes)):
        letters = [*letters_of(text)]
        spelled = [None if piece == unknown else spell(piece) for piece in pieces]
        for as_little in (False, True):
            found = _followed(text, letters, spelled, as_little)
            if found is not None:
                return found
    return None


def _followed(
    text: str,
    letters: Sequence[tuple[str, int]],
    pieces: Sequence[Sequence[str] | None],
    as_little: bool,
) -> list[Span] | None:
    """Where pieces stand; each may be spelled in several ways, an unknown one in any."""
    line, place_of = "".join(letter for letter, _ in letters), [place for _, place in letters]
    ends = _ends(text, place_of)
    found, at = list[Span](), 0
    for piece, following in zip(pieces, chain(pieces[1:], [None]), strict=False):
        if piece is None:
            stop = ends[at]
            if as_little and following is not None:
                after = (line.find(each, at + 1, stop) for each in following)
                stop = min((place for place in after if place > 0), default=stop)
        else:
            its = next((each for each in piece if line.startswith(each, at)), None)
            if its is None:
                return None
            stop = at + len(its)
        start = place_of[at] if at < len(line) else len(text)
        found.append((start, place_of[stop - 1] + 1 if stop > at else start))
        at = stop
    return found if at == len(line) else None


def _ends(text: str, place_of: Sequence[int]) -> list[int]:
    """For each letter, the letter after the next space."""
    ends = [len(place_of)] * (len(place_of) + 1)
    for at in reversed(range(1, len(place_of))):
        between = text[place_of[at - 1] + 1 : place_of[at]]
        ends[at - 1] = at if any(map(str.isspace, between)) else ends[at]
    return ends


def _spelled(piece: str) -> list[str]:
    """The letters of a piece, with and without marks."""
    bare = piece
    for mark in WORD_MARKS:
        bare = bare.removeprefix(mark).removesuffix(mark)
    return ["".join(letter for letter, _ in _letters(each)) for each in (piece, bare)]


def _letters(text: str) -> Letters:
    """Decompose, since a letter and its accent may be in two pieces; drop invisible letters."""
    for place, character in enumerate(text):
        for letter in unicodedata.normalize("NFKD", character).casefold():
            if not letter.isspace() and not unicodedata.category(letter).startswith("C"):
                yield letter, place


def _spelled_in_bytes(piece: str) -> list[str]:
    return [piece.replace(" ", "")]


def _bytes(text: str) -> Letters:
    # Only the space itself is never part of a letter: U+0085 and U+00A0 are halves of letters here.
    for place, character in enumerate(text):
        if character != " ":
            yield from ((letter, place) for letter in character.encode().decode("latin-1"))


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


UNSEEN, OTHER, PUNCTUATION = -1, 0, 1


def is_punctuation(text: str) -> bool:
    """Whether every character, except white space and word marks, is of category P.

    >>> [is_punctuation(text) for text in (" ,", "##…", "▁«", "a.", "$", " ")]
    [True, True, True, False, False, False]
    """
    text = text.strip()
    for mark in WORD_MARKS:
        # A token that consists of "##" only is two number signs and no mark.
        if text != mark:
            text = text.removeprefix(mark).removesuffix(mark)
    text = text.strip()
    return bool(text) and all(unicodedata.category(letter).startswith("P") for letter in text)


@final
class PunctuationTable:
    """Remembers for every token id seen whether it is punctuation.

    Args:
        decode: text of one token id; part of a character (byte-level) is not punctuation.
    """

    def __init__(self, decode: Callable[[int], str]) -> None:
        self._decode = decode
        self._known = np.full(1024, UNSEEN, dtype=np.int8)

    def __call__(self, ids: Int64[np.ndarray, "..."]) -> Bool[np.ndarray, "..."]:
        """Look up token ids."""
        largest = int(ids.max(initial=0))
        if largest >= len(self._known):
            more = np.full(largest + 1, UNSEEN, dtype=np.int8)
            self._known = np.concatenate([self._known, more])
        for token in np.unique(ids[self._known[ids] == UNSEEN]).tolist():
            self._known[token] = is_punctuation(self._decode(token))
        return self._known[ids] == PUNCTUATION
