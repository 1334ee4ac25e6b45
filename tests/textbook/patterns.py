"""The five patterns of attention maps, by our documented rule.

Reference: Kovaleva et al. 2019, sections 3 and 4.1, https://arxiv.org/abs/1908.08593
Their classifier was never released: the rule is ours, the names and their meaning are theirs.
"""

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

PATTERNS = ("vertical", "diagonal", "vertical_diagonal", "block", "heterogeneous")
OFFSETS = (-2, -1, 0, 1, 2)


def vertical(M: np.ndarray) -> float:
    """Mass on the two most attended columns, as excess over uniform attention.

    In the paper vertical stripes are mostly attention to special tokens. 0 with one or two columns.
    """
    queries, keys = M.shape
    if keys <= 2:
        return 0.0
    means = sorted(sum(float(M[q, k]) for q in range(queries)) / queries for k in range(keys))
    uniform = 2 / keys
    return (means[-1] + means[-2] - uniform) / (1 - uniform)


def diagonal(M: np.ndarray) -> float:
    """Mean weight on the strongest of five diagonals, as excess over uniform attention.

    In the paper diagonals are attention to the previous or the following token. 0 with one column.
    """
    queries, keys = M.shape
    if keys == 1:
        return 0.0
    strongest = 0.0
    for offset in OFFSETS:
        weights = [float(M[q, q + offset]) for q in range(queries) if 0 <= q + offset < keys]
        if weights:
            strongest = max(strongest, sum(weights) / len(weights))
    return (strongest - 1 / keys) / (1 - 1 / keys)


def segments(is_sep: list[bool], is_special: list[bool]) -> list[int]:
    """Segment of each token: the separators before the last content token up to it.

    A separator ends its segment, and so do all special tokens that follow it.
    """
    found, number = [], 0
    for place, special in enumerate(is_special):
        number = number if special else sum(is_sep[:place])
        found.append(number)
    return found


def block(M: np.ndarray, segment_of: list[int]) -> float:
    """Mass inside the own segment, as excess over uniform attention.

    In the paper blocks are attention within each of two sentences. 0 with one segment.
    """
    queries, keys = M.shape
    if len(set(segment_of)) < 2:
        return 0.0
    inside, size = 0.0, 0.0
    for query in range(queries):
        own = [key for key in range(keys) if segment_of[key] == segment_of[query]]
        inside += sum(float(M[query, key]) for key in own) / queries
        size += len(own) / keys / queries
    return (inside - size) / (1 - size)


def pattern(
    v: float,
    d: float,
    b: float,
    vertical: float = 0.4,
    diagonal: float = 0.4,
    block: float = 0.4,
    both: float = 0.2,
) -> str:
    """Name a map's pattern from its three features.

    Vertical+diagonal is a mixture of both; heterogeneous is a map without any such structure.
    """
    if v >= both and d >= both and v + d >= vertical:
        return "vertical_diagonal"
    if v >= vertical:
        return "vertical"
    if d >= diagonal:
        return "diagonal"
    if b >= block:
        return "block"
    return "heterogeneous"


def of_sentence(
    A: np.ndarray, segment_of: list[int] | None, thresholds: dict[str, float] | None = None
) -> list[str]:
    """Pattern of each head's map; `segment_of` is None when queries and keys are two sequences."""
    names = []
    for M in A:
        b = 0.0 if segment_of is None else block(M, segment_of)
        names.append(pattern(vertical(M), diagonal(M), b, **(thresholds or {})))
    return names


def over_corpus(sentences: Iterable[dict[str, Any]]) -> list[dict[str, float]]:
    """Per head the share of its maps that show each pattern; NaN for blocks without segments."""
    sentences, shares = list(sentences), []
    paired = any(len(set(sentence["segment_of"] or [])) > 1 for sentence in sentences)
    for names in zip(*(of_sentence(**sentence) for sentence in sentences), strict=True):
        counts = Counter(names)
        shares.append({name: counts[name] / len(names) for name in PATTERNS})
        if not paired:
            shares[-1]["block"] = math.nan
    return shares
