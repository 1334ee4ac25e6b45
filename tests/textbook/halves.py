"""Which half a text is in, hits by unit, and the test of a rate, by definition.

The first half chooses, the second is tested. A unit is what is independent: a text, or a segment of
a long one.
"""

import math
from collections.abc import Sequence


def clustered_t(units: Sequence[tuple[float, int]], null: float) -> tuple[float, float, float]:
    """Rate, standard error and t of hits and cases by unit; units without cases do not count.

    Reference: Cameron & Miller 2015, https://doi.org/10.3368/jhr.50.2.317
    """
    units = [unit for unit in units if unit[1]]
    cases = sum(n for _, n in units)
    rate = sum(x for x, _ in units) / cases
    squares = sum((x - rate * n) ** 2 for x, n in units)
    error = math.sqrt(squares * len(units) / (len(units) - 1)) / cases
    return rate, error, (rate - null) / error


def looks_of_sentence(
    A: list[list[float]],
    query_is_special: list[bool],
    key_is_special: list[bool],
    offset: int,
    is_causal: bool,
) -> list[tuple[int, float, float]]:
    """Query, whether it looks most at query + offset, and chance, for each case of one head.

    Of the content keys but the text's first token, one has the largest weight. A case is a content
    query that sees the key at the offset, which is content and not the first content key.
    """
    content = [key for key, special in enumerate(key_is_special) if not special]
    later = [key for key in content if key > 0]
    cases = []
    for query, row in enumerate(A):
        seen = [key for key in later if not is_causal or key <= query]
        target = query + offset
        if query_is_special[query] or target not in seen or target == content[0]:
            continue
        best = seen[0] if seen else -1
        for key in later:
            if row[key] > row[best] or (row[key] == row[best] and key < best):
                best = key
        cases.append((query, float(best == target), 1 / len(seen)))
    return cases


EARLY = 10
"""First query of causal models that is compared."""


def rarest_seen(
    ids: list[int], key_is_special: list[bool], query: int, counts: dict[int, int], is_causal: bool
) -> list[int]:
    """Places of the two rarest content tokens that a query sees, the earlier first in a tie."""
    seen = [k for k, special in enumerate(key_is_special) if not special]
    seen = [k for k in seen if not is_causal or k <= query]
    return sorted(seen, key=lambda k: (counts.get(ids[k], 0), k))[:2]


def trait_cases(
    A: list[list[float]],
    trait: str,
    in_class: list[bool],
    rarest: list[list[int]],
    key_is_special: list[bool],
    is_causal: bool,
    is_self: bool,
) -> list[tuple[int, float, float]]:
    """Query, weight on a class of keys, and chance, for each case of one head.

    `rarest` has the rare tokens of each query, none if even the rarest is common.
    """
    num_keys = len(in_class)
    cases = []
    for query, row in enumerate(A):
        seen = [k for k in range(num_keys) if not is_causal or k <= query]
        members = [k for k in seen if in_class[k]]
        if is_causal and query < EARLY:
            continue
        if trait == "first" and (0 in rarest[query] or (is_self and query < 2)):
            continue
        if trait == "separator" and is_self and any(abs(k - query) < 2 for k in members):
            continue
        if trait == "punctuation" and in_class[0]:
            continue
        if 0 < len(members) < len(seen):
            cases.append((query, sum(row[k] for k in members), len(members) / len(seen)))
    return cases


def rare_cases(
    A: list[list[float]],
    rarest: list[list[int]],
    query_is_special: list[bool],
    key_is_special: list[bool],
    is_causal: bool,
) -> list[tuple[int, float, float]]:
    """Query, whether it looks most at one of the two rarest tokens it sees, and chance."""
    content = [k for k, special in enumerate(key_is_special) if not special]
    cases = []
    for query, row in enumerate(A):
        seen = [k for k in content if k > 0 and (not is_causal or k <= query)]
        rare = rarest[query]
        if query_is_special[query] or len(rare) < 2 or (is_causal and query < EARLY):
            continue
        if 0 in rare or content[0] in rare or len(seen) < 3:
            continue
        best = max(seen, key=lambda k: (row[k], -k))
        cases.append((query, float(best in rare), 2 / len(seen)))
    return cases
