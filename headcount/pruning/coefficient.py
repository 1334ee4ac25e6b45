"""Coefficient: search for the penalty that leaves as many gates open as heads are to be kept.

The paper trains once for every coefficient of the penalty and takes whatever number of heads
results. Here each coefficient follows from the results so far: a quarter or four times the last one
until numbers on both sides are known, then the geometric mean of the two nearest. If sites have
budgets of their own, their sum guides the search, since one coefficient affects all sites.

Reference: Analyzing Multi-Head Self-Attention (Voita et al., 2019), section 6.1,
https://arxiv.org/abs/1905.09418
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, final

FACTOR = 4.0
"""Ratio of successive coefficients while all numbers of open heads lie on one side."""

Trained = TypeVar("Trained")


@final
@dataclass(frozen=True)
class Swept(Generic[Trained]):
    """The result of a sweep over coefficients."""

    nearest: Trained
    """The training with the smallest error summed over sites; ties prefer more open heads."""
    tried: Mapping[float, int]
    """Number of open heads in all by coefficient, in the order of trying."""


def swept(
    train: Callable[[float], Trained],
    count: Callable[[Trained], Sequence[int]],
    wanted: Sequence[int],
    first: float,
    trials: int,
) -> Swept[Trained]:
    """Search for the coefficient of a penalty that leaves a given number of heads open.

    The search assumes that the number falls as the coefficient grows. If noise makes it rise, the
    answer is still the nearest of those tried.

    >>> found = swept(lambda coefficient: [round(8 - 40 * coefficient)], list, [4], 0.2, 8)
    >>> found.nearest, found.tried
    ([4], {0.2: 0, 0.05: 6, 0.1: 4})

    Args:
        train: function that trains with a coefficient.
        count: function that gives the number of heads a training left open, at each of some sites.
        wanted: target numbers of open heads at these sites.
        first: first coefficient, above 0.
        trials: largest number of coefficients, at least 1.
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
    """A coefficient not tried yet, even if numbers do not fall as coefficients grow."""
    strong = [coefficient for coefficient, number in tried.items() if number < wanted]
    if not strong:
        return max(tried) * FACTOR
    weak = [coefficient for coefficient in tried if coefficient < min(strong)]
    return math.sqrt(max(weak) * min(strong)) if weak else min(strong) / FACTOR


def _misses(numbers: Sequence[int], wanted: Sequence[int]) -> tuple[int, int]:
    apart = sum(abs(number - want) for number, want in zip(numbers, wanted, strict=True))
    return apart, -sum(numbers)
