"""Bootstrap, Holm's correction and rank correlation, by definition.

References: Efron and Tibshirani 1993, chapters 13 and 15; Holm 1979; Spearman 1904; Bonett and
Wright 2000, https://doi.org/10.1007/BF02294183.
"""

import math
from collections.abc import Callable, Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which a share of the values lies, with linear interpolation."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def bootstrap(
    difference: Callable[[Sequence[int]], float], draws: Sequence[Sequence[int]]
) -> tuple[float, float, float]:
    """Ends of the 95 % interval and two-sided p of a difference, from drawn samples.

    N examples have N signs: all alike, on either side, are 2 of 2^N equally likely outcomes.
    """
    drawn = [difference(sample) for sample in draws]
    not_above = sum(1 for d in drawn if d <= 0)
    not_below = sum(1 for d in drawn if d >= 0)
    p = 2 * (1 + min(not_above, not_below)) / (1 + len(drawn))
    p = min(1.0, max(p, 2 / 2 ** len(draws[0])))
    return percentile(drawn, 0.025), percentile(drawn, 0.975), p


def holm(p: Sequence[float]) -> list[float]:
    """Smallest p times all tests, the next times one fewer ..., never below the one before."""
    adjusted = [0.0] * len(p)
    remaining = set(range(len(p)))
    so_far = 0.0
    while remaining:
        smallest = min(remaining, key=lambda i: p[i])
        so_far = max(so_far, min(1.0, p[smallest] * len(remaining)))
        adjusted[smallest] = so_far
        remaining.remove(smallest)
    return adjusted


def ranks(values: Sequence[float]) -> list[float]:
    """Ranks: 1 for the smallest; equal values share the mean of their ranks."""
    return [
        sum(1 for other in values if other < value)
        + (1 + sum(1 for other in values if other == value)) / 2
        for value in values
    ]


def pearson(x: Sequence[float], y: Sequence[float]) -> float:
    """Covariance over the product of standard deviations."""
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    both = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return both / math.sqrt(sum((a - mean_x) ** 2 for a in x) * sum((b - mean_y) ** 2 for b in y))


def spearman(x: Sequence[float], y: Sequence[float]) -> tuple[float, float, float]:
    """Rank correlation with the ends of its 95 % interval."""
    rho = pearson(ranks(x), ranks(y))
    wide = 1.959963984540054 * math.sqrt((1 + rho * rho / 2) / (len(x) - 3))
    middle = 0.5 * math.log((1 + rho) / (1 - rho))
    return rho, math.tanh(middle - wide), math.tanh(middle + wide)
