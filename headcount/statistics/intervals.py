"""Intervals: a number with the range in which it lies in 95 % of cases."""

import math
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from jaxtyping import Float


@final
@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float
    cases: int
    """Number of cases that the number is over."""

    def within(self, least: float, most: float) -> "Estimate":
        """The same number with an interval that holds only what is possible.

        >>> Estimate(0.9, 0.7, 1.1, 8).within(0.0, 1.0).high
        1.0
        >>> Estimate(0.9, math.nan, math.nan, 8).within(0.0, 1.0)
        Estimate(value=0.9, low=0.0, high=1.0, cases=8)
        """
        if math.isnan(self.value):
            return self
        low = least if math.isnan(self.low) else max(self.low, least)
        high = most if math.isnan(self.high) else min(self.high, most)
        return replace(self, low=low, high=high)


def middle(drawn_D: Float[np.ndarray, " draw"]) -> tuple[float, float]:
    """Both ends of the middle 95 % of some draws.

    >>> middle(np.arange(41.0))
    (1.0, 39.0)
    """
    low, high = np.quantile(drawn_D, [0.025, 0.975]).tolist()
    return low, high


def mean_interval(
    values_N: Float[np.ndarray, "case ..."],
) -> Float[np.ndarray, "3 ..."]:
    """Student's 95 % interval of means over independent cases: low end, mean and high end."""
    from scipy.stats import t as student

    mean, num = values_N.mean(0), len(values_N)
    reach = student.ppf(0.975, num - 1) * values_N.std(0, ddof=1) / np.sqrt(num)
    return np.stack([mean - reach, mean, mean + reach])
