"""Confidence, by definition.

Reference: Voita et al. 2019, section 4, https://arxiv.org/abs/1905.09418
"""

from collections.abc import Iterable
from typing import Any

import numpy as np


def of_sentence(
    A: np.ndarray,
    query_is_special: list[bool],
    key_is_special: list[bool],
    exclude_keys: bool = True,
    exclude_queries: bool = True,
) -> tuple[list[float], int]:
    """Per head the sum of the maximum attention weights, and the number of tokens that attend.

    Confidence is a head's average maximum attention weight, over the tokens of a set of sentences.
    The paper leaves out the end-of-sentence symbol; here all special symbols are left out, as
    tokens that attend and as tokens attended to, and what remains is not renormalised. Either can
    be left in.
    """
    heads, queries, keys = A.shape
    sums, tokens = [0.0] * heads, 0
    for head in range(heads):
        for query in range(queries):
            if query_is_special[query] and exclude_queries:
                continue
            tokens += not head
            largest = 0.0
            for key in range(keys):
                if not (key_is_special[key] and exclude_keys):
                    largest = max(largest, float(A[head, query, key]))
            sums[head] += largest
    return sums, tokens


def over_corpus(sentences: Iterable[dict[str, Any]]) -> list[float]:
    """Confidence of each head."""
    totals = [of_sentence(**sentence) for sentence in sentences]
    tokens = sum(count for _, count in totals)
    return [sum(head) / tokens for head in zip(*(sums for sums, _ in totals), strict=True)]
