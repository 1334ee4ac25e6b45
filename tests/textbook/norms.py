"""Norms of the vectors that attention mixes, by definition.

Reference: Kobayashi et al. 2020, sections 2.2 and 4, https://arxiv.org/abs/2004.10102
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

CLASSES = ("first", "sep", "punct")


def transformed(v: np.ndarray, W_O: np.ndarray, head: int, key: int) -> list[float]:
    """f(x_j) = (x_j W_V + b_V) W_O of one head: the value vector through its rows of W_O."""
    dims, hidden = W_O.shape[1:]
    return [
        sum(float(v[head, key, dim]) * float(W_O[head, dim, out]) for dim in range(dims))
        for out in range(hidden)
    ]


def of_sentence(
    A: np.ndarray,
    v: np.ndarray,
    W_O: np.ndarray,
    key_is_sep: list[bool],
    key_is_punct: list[bool],
) -> dict[str, list[float]]:
    """Sums per head: `f`, `keys`, and A_ij ||f(x_j)|| over `all` keys and over each class.

    A token's contribution is not its weight but the length of its weighted vector, ||A f(x)||.
    v is [head, key, dim] with the value bias in and grouped heads already repeated; W_O is
    [head, dim, hidden], without the output bias. The classes are those of section 4.1: the first
    token, separators and punctuation; all tokens attend.
    """
    heads, queries, keys = A.shape
    sums = {name: [0.0] * heads for name in ("f", "keys", "all", *CLASSES)}
    for head in range(heads):
        for key in range(keys):
            f_norm = math.sqrt(sum(x * x for x in transformed(v, W_O, head, key)))
            sums["f"][head] += f_norm
            sums["keys"][head] += 1
            for query in range(queries):
                weighted = float(A[head, query, key]) * f_norm
                sums["all"][head] += weighted
                if key == 0:
                    sums["first"][head] += weighted
                if key_is_sep[key]:
                    sums["sep"][head] += weighted
                if key_is_punct[key]:
                    sums["punct"][head] += weighted
    return sums


def over_corpus(sentences: Iterable[dict[str, Any]]) -> dict[str, list[float]]:
    """Per head `value_norm`, the mean ||f(x_j)||, and the shares `first`, `sep`, `punct`."""
    totals = [of_sentence(**sentence) for sentence in sentences]

    def summed(name: str) -> list[float]:
        return [sum(head) for head in zip(*(total[name] for total in totals), strict=True)]

    def ratio(name: str, whole: str) -> list[float]:
        return [a / b for a, b in zip(summed(name), summed(whole), strict=True)]

    return {"value_norm": ratio("f", "keys")} | {name: ratio(name, "all") for name in CLASSES}
