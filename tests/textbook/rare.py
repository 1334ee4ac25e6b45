"""Attention to the rarest tokens of a sentence, by definition.

Reference: Voita et al. 2019, section 5.3, https://arxiv.org/abs/1905.09418
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np


def rank(token: int, counts: Mapping[int, int]) -> int:
    """Number of tokens that are more common: a higher count, or the same count and a lower id."""
    own = (-counts.get(token, 0), token)
    return sum((-count, other) < own for other, count in counts.items())


def rarest(
    key_ids: list[int], key_is_special: list[bool], counts: Mapping[int, int], top: int
) -> list[int]:
    """Places of the two least frequent tokens of a sentence, the rarest first.

    Of tokens counted equally often the earlier one is the rarer. Empty when the rarest is among
    the `top` most frequent tokens of the corpus; one place when there is one token only.
    """
    content = [place for place in range(len(key_ids)) if not key_is_special[place]]
    content.sort(key=lambda place: (counts.get(key_ids[place], 0), place))
    if not content or rank(key_ids[content[0]], counts) < top:
        return []
    return content[:2]


def of_sentence(
    A: np.ndarray,
    query_is_special: list[bool],
    key_is_special: list[bool],
    key_ids: list[int],
    counts: Mapping[int, int],
    top: int = 500,
) -> tuple[list[int], list[int], int]:
    """Per head, counts of tokens that attend most to the rarest, to one of two, and of all tokens.

    Only sentences whose least frequent token is outside the corpus's 500 most frequent ones are
    used. The counts say how often the maximum attention weight is on that token, or on one of the
    two least frequent ones. Special symbols neither attend nor are attended to. Equal weights: the
    earlier token.
    """
    heads, queries, keys = A.shape
    at_rarest, at_either, cases = [0] * heads, [0] * heads, 0
    places = rarest(key_ids, key_is_special, counts, top)
    if not places:
        return at_rarest, at_either, cases
    for query in range(queries):
        if query_is_special[query]:
            continue
        cases += 1
        for head in range(heads):
            best_key = -1
            for key in range(keys):
                if key_is_special[key]:
                    continue
                if best_key < 0 or A[head, query, key] > A[head, query, best_key]:
                    best_key = key
            at_rarest[head] += best_key == places[0]
            at_either[head] += best_key in places
    return at_rarest, at_either, cases


def over_corpus(
    sentences: Iterable[dict[str, Any]],
) -> tuple[list[float], list[float], int]:
    """Per head the share at the rarest and at the two rarest, and the number of cases."""
    totals = [of_sentence(**sentence) for sentence in sentences]
    cases = sum(count for _, _, count in totals)

    def shares(column: int) -> list[float]:
        per_head = zip(*(total[column] for total in totals), strict=True)
        return [sum(head) / cases if cases else float("nan") for head in per_head]

    return shares(0), shares(1), cases
