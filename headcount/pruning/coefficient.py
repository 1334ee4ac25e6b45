"""Coefficient: the penalty under which as many gates stay open as heads are to stay.

The paper trains once for every coefficient of the penalty and takes the number of heads that comes
out. Here the coefficients follow from what came out so far: a quarter or four times the last one
until numbers on both sides are known, then the geometric mean of the two nearest. Where sites have
numbers of their own it is led by their sum, since one coefficient weighs on all.

Reference: Analyzing Multi-Head Self-Attention (Voita et al., 2019), section 6.1,
https://arxiv.org/abs/1905.09418
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, final

FACTOR = 4.0
"""Between two coefficients while all numbers lie on one side."""

Trained = TypeVar("Trained")


@final
@dataclass(frozen=True)
class Swept(Generic[Trained]):
    """What a sweep of coefficients came to."""

    nearest: Trained
    """Whose open heads miss the fewest, site by site; of equals the one that leaves more open."""
    tried: Mapping[float, int]
    """Open heads in all by coefficient, in the order of trying."""


def swept(
    train: Callable[[float], Trained],
    count: Callable[[Trained], Sequence[int]],
    wanted: Sequence[int],
    first: float,
    trials: int,
) -> Swept[Trained]:
    """Look for the coefficient of a penalty that leaves a number of heads open.

    The number is taken to fall as the coefficient grows; where noise makes it rise, the nearest of
    those that were tried is the answer all the same.

    >>> found = swept(lambda coefficient: [round(8 - 40 * coefficient)], list, [4], 0.2, 8)
    >>> found.nearest, found.tried
    ([4], {0.2: 0, 0.05: 6, 0.1: 4})

    Args:
        train: trains with a coefficient.
        count: says how many heads such a training left open, at each of some sites.
        wanted: how many are to stay open there.
        first: coefficient, above 0.
        trials: coefficients at most, at least one.
    """
    nearest = train(first)
    tried = {first: sum(count(nearest))}
    while len(tried) < trials and sum(wanted) not in tried.values():
        coefficient = _next(tried, sum(wanted))
        trained = train(coefficient)
        tried[coefficient] = sum(count(trained))
        if _misses(count(trained), wanted) < _misses(count(nearest), wanted):
            nearest = trained
    return Swept(nearest, tried)


def _next(tried: Mapping[float, int], wanted: int) -> float:
    """One that was not tried, also where numbers do not fall as coefficients grow."""
    strong = [coefficient for coefficient, number in tried.items() if number < wanted]
    if not strong:
        return max(tried) * FACTOR
    weak = [coefficient for coefficient in tried if coefficient < min(strong)]
    return math.sqrt(max(weak) * min(strong)) if weak else min(strong) / FACTOR


def _misses(numbers: Sequence[int], wanted: Sequence[int]) -> tuple[int, int]:
    apart = sum(abs(number - want) for number, want in zip(numbers, wanted, strict=True))
    return apart, -sum(numbers)
