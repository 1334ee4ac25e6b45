"""Matching by its definition: every permutation is tried, every distance is a loop."""

import math
from collections.abc import Mapping, Sequence
from itertools import permutations

Traits = Mapping[str, Sequence[float]]
"""Strengths by trait, over the heads of a site."""


def standardised(values: Sequence[float]) -> list[float]:
    """The values less their mean, in standard deviations."""
    limited = [min(1.0, max(-1.0, value)) for value in values]
    mean = sum(limited) / len(limited)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in limited) / len(limited))
    return [(value - mean) / deviation for value in limited]


def distance(one: Traits, other: Traits, roles: Mapping[str, str], a: int, b: int) -> float:
    """Distance of head a of the first model and head b of the second; roles weigh alike."""
    total = 0.0
    for trait, role in roles.items():
        same_role = sum(each == role for each in roles.values())
        difference = standardised(one[trait])[a] - standardised(other[trait])[b]
        total += difference**2 / same_role
    return math.sqrt(total)


def best_pairs(one: Traits, other: Traits, roles: Mapping[str, str]) -> tuple[list[int], float]:
    """The head of the second model for each of the first, and the mean distance."""
    count = len(next(iter(one.values())))
    table = [[distance(one, other, roles, a, b) for b in range(count)] for a in range(count)]
    best = min(
        permutations(range(count)),
        key=lambda order: sum(table[a][b] for a, b in enumerate(order)),
    )
    return list(best), sum(table[a][b] for a, b in enumerate(best)) / count
