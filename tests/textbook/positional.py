"""Relative positions that a head points at, by definition.

Reference: Voita et al. 2019, section 5.1, https://arxiv.org/abs/1905.09418
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np


def of_sentence(
    A: np.ndarray, query_is_special: list[bool], key_is_special: list[bool]
) -> list[Counter[int]]:
    """Per head, how often the maximum attention weight lies at each relative position.

    A head is positional when, nearly always, its maximum attention weight is on one relative
    position, as a rule the previous or the next token. The relative position is the place of the
    token attended to minus that of the token that attends, in the whole sentence, special symbols
    counted; they themselves neither attend nor are attended to. Equal weights: the earlier token.
    """
    heads, queries, keys = A.shape
    profiles: list[Counter[int]] = [Counter() for _ in range(heads)]
    content_keys = [key for key in range(keys) if not key_is_special[key]]
    for head in range(heads):
        for query in range(queries):
            if query_is_special[query] or not content_keys:
                continue
            best_key = content_keys[0]
            for key in content_keys:
                if A[head, query, key] > A[head, query, best_key]:
                    best_key = key
            profiles[head][best_key - query] += 1
    return profiles


def over_corpus(sentences: Iterable[dict[str, Any]]) -> list[dict[int, float]]:
    """Offset profile of each head: share of tokens by offset; the shares of a head sum to 1."""
    totals = [of_sentence(**sentence) for sentence in sentences]
    profiles = []
    for of_head in zip(*totals, strict=True):
        counts: Counter[int] = Counter()
        for part in of_head:
            counts.update(part)
        profiles.append({offset: n / counts.total() for offset, n in sorted(counts.items())})
    return profiles


def best(profile: dict[int, float]) -> tuple[int, float]:
    """Most frequent offset and its share; of equals the nearer one, then the one to the left."""
    offset = min(profile, key=lambda offset: (-profile[offset], abs(offset), offset))
    return offset, profile[offset]
