"""Which tokens are punctuation: a property of the token id, looked up once per id."""

import unicodedata
from collections.abc import Callable
from typing import final

import numpy as np
from jaxtyping import Bool, Int64

from headcount.corpora.piece_alignment import WORD_MARKS

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
