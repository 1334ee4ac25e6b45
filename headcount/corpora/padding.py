"""Padding: rows of numbers of different lengths in one array, padded on the right."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
from jaxtyping import Bool, Int64


def padded(rows: Sequence[Sequence[int]], fill: int) -> Int64[np.ndarray, "row token"]:
    """The rows, padded with `fill`; needs at least one row."""
    is_present_RN = present(rows)
    padded_RN = np.full(is_present_RN.shape, fill, dtype=np.int64)
    padded_RN[is_present_RN] = np.fromiter(chain.from_iterable(rows), np.int64)
    return padded_RN


def present(rows: Sequence[Sequence[int]]) -> Bool[np.ndarray, "row token"]:
    """True where a row has a number. Length decides, since a token can have the padding's id."""
    length_R = np.fromiter(map(len, rows), np.int64)
    return np.arange(length_R.max()) < length_R[:, None]
