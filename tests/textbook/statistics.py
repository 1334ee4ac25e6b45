"""Resampled ratios, tests of a difference, Holm's correction and rank correlation, by definition.

References: Hall 1992, https://www.jstor.org/stable/2345958; Noreen 1989; Holm 1979; Spearman 1904;
Bonett and Wright 2000, https://doi.org/10.1007/BF02294183; Paule and Mandel 1982,
https://doi.org/10.6028/jres.087.022.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from scipy import stats
from scipy.optimize import brentq


def ratio(more: Sequence[float], count: Sequence[float]) -> tuple[float, float, float]:
    """A ratio of sums, its standard error by linearisation, and the skewness of its examples."""
    num, mean = len(more), sum(more) / sum(count)
    rest = [x - mean * c for x, c in zip(more, count, strict=True)]
    square, cube = (sum(r**power for r in rest) / num for power in (2, 3))
    error = num * math.sqrt(square / (num - 1)) / sum(count)
    return mean, error, cube / square**1.5 if square > 0 else 0.0


def less_skewed(t: float, skew: float, num: int) -> float:
    """Hall's cubic transformation of a studentized mean."""
    short = t / math.sqrt(num)
    cubic = short + skew * short**2 / 3 + skew**2 * short**3 / 27
    return math.sqrt(num) * (cubic + skew / (6 * num))


def studentized_p(
    more: Sequence[float],
    count: Sequence[float],
    draws: Sequence[Sequence[int]],
    value: float = 0.0,
) -> float:
    """Two-sided p of a value of sum(more) / sum(count), by the studentized bootstrap."""
    num = len(more)
    mean, error, skew = ratio(more, count)
    observed = abs(less_skewed((mean - value) / error, skew, num))
    as_far = 0
    for sample in draws:
        drawn, its_error, its_skew = ratio([more[n] for n in sample], [count[n] for n in sample])
        t = (drawn - mean) / its_error if its_error else math.inf
        far = abs(less_skewed(t, its_skew, num)) if its_error else t
        as_far += far >= observed
    return (1 + as_far) / (1 + len(draws))


def randomization_p(
    score: Callable[[Sequence[int], Sequence[int]], float],
    weight: Sequence[float],
    swaps: Sequence[Sequence[int]],
    value: float = 0.0,
) -> float:
    """Two-sided p of a true difference, by paired approximate randomization.

    `score` gets, for both sides, which of the two systems each example's result is taken from.
    """
    num = len(weight)
    observed = score([0] * num, [1] * num)
    as_far = 0
    for swap in swaps:
        swapped = score(swap, [1 - s for s in swap])
        kept = sum(-w if s else w for s, w in zip(swap, weight, strict=True)) / sum(weight)
        as_far += abs(swapped - value * kept) >= abs(observed - value)
    return (1 + as_far) / (1 + len(swaps))


def sign_flips(num: int) -> float:
    """Smallest two-sided p of N differences: all signs alike, on either side, out of 2^N."""
    return 2 / 2**num


def p_at_least(value: float, drawn: Sequence[float]) -> float:
    """The share of draws that are at least as large, what was found counted as one of them."""
    return (1 + sum(each >= value for each in drawn)) / (1 + len(drawn))


def bootstrap(
    groups: Sequence[tuple[Sequence[float], Sequence[float]]], draws: Sequence[Sequence[int]]
) -> tuple[float, float, float]:
    """The mean over groups of sum / cases, with Student's interval by draws of sentences."""

    def mean(times: Sequence[int]) -> float:
        ratios = []
        for sums, cases in groups:
            total = sum(n * case for n, case in zip(times, cases, strict=True))
            if total:
                ratios.append(sum(n * each for n, each in zip(times, sums, strict=True)) / total)
        return sum(ratios) / len(ratios) if ratios else math.nan

    drawn = [each for each in map(mean, draws) if not math.isnan(each)]
    value = mean([1] * len(groups[0][0]))
    sizes = [sum(each) for each in zip(*(cases for _, cases in groups), strict=True)]
    clusters = sum(size > 0 for size in sizes)
    if clusters < 8:
        return value, math.nan, math.nan
    its_mean = sum(drawn) / len(drawn)
    variance = sum((each - its_mean) ** 2 for each in drawn) / (len(drawn) - 1)
    worth = sum(sizes) ** 2 / sum(size**2 for size in sizes)
    reach = float(stats.t.ppf(0.975, worth - 1))
    half = reach * math.sqrt(variance * clusters / (clusters - 1))
    return value, value - half, value + half


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


def shrunken(estimates: Sequence[float], errors: Sequence[float]) -> list[float]:
    """Estimates drawn to their mean; the spread of the truth by Paule and Mandel (1982)."""

    def mean(spread: float) -> float:
        weights = [1 / (spread + error**2) for error in errors]
        return sum(w * y for w, y in zip(weights, estimates, strict=True)) / sum(weights)

    def beyond(spread: float) -> float:
        centre = mean(spread)
        squares = [
            (y - centre) ** 2 / (spread + error**2)
            for y, error in zip(estimates, errors, strict=True)
        ]
        return sum(squares) - (len(estimates) - 1)

    spread: Any = 0.0 if beyond(0.0) <= 0 else brentq(beyond, 0.0, 1e3, xtol=1e-15)
    centre = mean(spread)
    return [
        (spread * y + error**2 * centre) / (spread + error**2)
        for y, error in zip(estimates, errors, strict=True)
    ]


def power(effect: float, error: float, tests: int, alpha: float) -> float:
    """Share of estimates, spread normally around the effect, that pass a corrected test."""

    def density(x: float) -> float:
        return math.exp(-(((x - effect) / error) ** 2) / 2) / (error * math.sqrt(2 * math.pi))

    def p(x: float) -> float:
        return math.erfc(abs(x) / error / math.sqrt(2))

    step = error / 5_000
    points = (effect + step * (number + 0.5) for number in range(-40_000, 40_000))
    return sum(density(x) * step for x in points if x > 0 and p(x) * tests < alpha)
