"""Entropy of the attention distribution, by definition.

Reference: Clark et al. 2019, section 3.3, https://arxiv.org/abs/1906.04341
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np


def of_sentence(A: np.ndarray) -> tuple[list[float], int]:
    """Per head the sum of the entropies of all tokens' attention distributions, and their number.

    Does a head focus on few words or attend broadly? The entropy of a token's distribution over
    the tokens it may attend to is - sum_k A ln A, in nats, with 0 ln 0 = 0. The paper's smoothing
    is left out; special symbols count like any token.
    """
    heads, queries, keys = A.shape
    sums = [0.0] * heads
    for head in range(heads):
        for query in range(queries):
            for key in range(keys):
                weight = float(A[head, query, key])
                if weight > 0:
                    sums[head] -= weight * math.log(weight)
    return sums, queries


def over_corpus(sentences: Iterable[dict[str, Any]]) -> list[float]:
    """Mean entropy of each head, in nats."""
    totals = [of_sentence(**sentence) for sentence in sentences]
    tokens = sum(count for _, count in totals)
    return [sum(head) / tokens for head in zip(*(sums for sums, _ in totals), strict=True)]
