"""The weight that goes to no token, by definition.

A head's learned sink is one more logit in the softmax of every query: softmax over the scores of
the keys and the sink gives as many weights and one more, and the last belongs to no token.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np


def weights(scores: Sequence[float], sink: float) -> tuple[list[float], float]:
    """The weights of one query on its keys, and that on the sink."""
    total = math.exp(sink) + sum(math.exp(score) for score in scores)
    return [math.exp(score) / total for score in scores], math.exp(sink) / total


def of_sentence(A: np.ndarray) -> tuple[list[float], int]:
    """Per head the sum over tokens of what their weights leave, and the number of tokens."""
    heads, queries, keys = A.shape
    sums = [0.0] * heads
    for head in range(heads):
        for query in range(queries):
            left = 1.0
            for key in range(keys):
                left -= float(A[head, query, key])
            sums[head] += left
    return sums, queries


def over_corpus(sentences: Iterable[dict[str, Any]]) -> list[float]:
    """Mean weight of each head that goes to no token."""
    totals = [of_sentence(**sentence) for sentence in sentences]
    tokens = sum(count for _, count in totals)
    return [sum(head) / tokens for head in zip(*(sums for sums, _ in totals), strict=True)]
