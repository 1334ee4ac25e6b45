r"""Orders in which rounding decides nothing.

What a model computes differs between processors in its last bits, so numbers that are equal on
paper come in any order. Here two numbers are equal if they differ by at most `ROUNDING` times the
smaller one, and equal ones keep the order in which they are given, which is that of the heads.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np
from jaxtyping import Float, Int

ROUNDING = 2.0**-20
"""Largest difference of equal numbers, as a share of the smaller: eight units in the last place of
float32, in which models compute."""

Item = TypeVar("Item")


def levels(
    values: Sequence[float] | Float[np.ndarray, " value"],
) -> Int[np.ndarray, " value"]:
    """Whole numbers in place of numbers, the same for equal ones; NaN is the largest.

    Each number is compared with the least of those that it could be equal to, so that a chain of
    equal numbers has an end.

    >>> levels([0.3, 0.2, 0.1 + 0.2, 0.4]).tolist()
    [1, 0, 1, 2]
    """
    value_N = np.asarray(values, np.float64)
    order_N = np.argsort(value_N, kind="stable")
    level_N = np.zeros(len(value_N), np.int64)
    least, level = np.nan, -1
    for place, value in zip(order_N.tolist(), value_N[order_N].tolist(), strict=True):
        if value != least and not value - least <= ROUNDING * min(abs(value), abs(least)):
            least, level = value, level + 1
        level_N[place] = level
    return level_N


def rising(
    values: Sequence[float] | Float[np.ndarray, " value"],
) -> Int[np.ndarray, " value"]:
    """Places of numbers from the least to the largest; NaN is last."""
    return np.argsort(levels(values), kind="stable")


def falling(
    values: Sequence[float] | Float[np.ndarray, " value"],
) -> Int[np.ndarray, " value"]:
    """Places of numbers from the largest to the least; NaN is last."""
    return rising(-np.asarray(values, np.float64))


def sorted_by(
    items: Iterable[Item], value: Callable[[Item], float], *, descending: bool = False
) -> list[Item]:
    """The items by rising number, or by falling one; equal ones as they are given."""
    given = list(items)
    order = (falling if descending else rising)([*map(value, given)])
    return [given[place] for place in order.tolist()]
