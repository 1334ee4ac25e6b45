"""Attention to positions and kinds of tokens, by definition.

Reference: Clark et al. 2019, sections 3.1 and 3.2, https://arxiv.org/abs/1906.04341
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

NAMES = ("self", "prev", "next", "first", "sep", "punct")


def of_sentence(
    A: np.ndarray, key_is_sep: list[bool], key_is_punct: list[bool]
) -> tuple[dict[str, list[float]], int]:
    """Per kind and head the sum of the weights that tokens put on it, and the number of tokens.

    How much attention goes to the current, the previous and the next token, and how much to the
    few tokens that draw a lot of it: the first one, the separators, punctuation. A token that has
    no such neighbour puts 0 on it.
    """
    heads, queries, keys = A.shape
    sums = {name: [0.0] * heads for name in NAMES}
    for head in range(heads):
        for query in range(queries):
            row = [float(weight) for weight in A[head, query]]
            for key in range(keys):
                if key == query:
                    sums["self"][head] += row[key]
                if key == query - 1:
                    sums["prev"][head] += row[key]
                if key == query + 1:
                    sums["next"][head] += row[key]
                if key == 0:
                    sums["first"][head] += row[key]
                if key_is_sep[key]:
                    sums["sep"][head] += row[key]
                if key_is_punct[key]:
                    sums["punct"][head] += row[key]
    return sums, queries


def over_corpus(sentences: Iterable[dict[str, Any]]) -> dict[str, list[float]]:
    """Mean weight of each head on each kind, by name."""
    totals = [of_sentence(**sentence) for sentence in sentences]
    tokens = sum(count for _, count in totals)
    return {
        name: [sum(head) / tokens for head in zip(*(sums[name] for sums, _ in totals), strict=True)]
        for name in NAMES
    }
