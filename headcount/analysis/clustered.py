r"""Rates of clustered cases: the rate, its standard error, a one-sided test and an interval.

With x hits among n cases in each of U units (sentences), the rate is $r = \sum x / \sum n$ and

$$\mathrm{se}(r) = \frac{1}{\sum n} \sqrt{\frac{U}{U - 1} \sum (x - r n)^2},
\qquad t = \frac{r - r_0}{\mathrm{se}(r)},$$

which is Student's t with U - 1 degrees of freedom if the rate is at most $r_0$. The interval holds
90 % of the cases in theory: its lower end is above $r_0$ exactly when p < 0.05.

References: cluster-robust errors: Cameron & Miller (2015), https://doi.org/10.3368/jhr.50.2.317;
    many tests: Holm (1979), https://www.jstor.org/stable/4615733
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.stats import t as student

from headcount.measures import Moments

ALPHA = 0.05
"""Error of one test, and of each end of an interval."""


@final
@dataclass(frozen=True)
class ClusteredRates:
    """Rates of several heads on the same cases."""

    rate_H: np.ndarray
    """Hits per case; NaN without cases."""
    error_H: np.ndarray
    """Standard error of the rate; NaN with fewer than two units."""
    units: int
    """Number of units."""

    @classmethod
    def of(cls, hits_H: np.ndarray, cases: int, moments: Moments, kind: int) -> "ClusteredRates":
        """Rates of one kind of cases.

        Args:
            hits_H: sum of x over all units.
            cases: sum of n over all units.
            moments: the moments over units.
            kind: the number of the kind in them.
        """
        closed = moments.closed()
        squares_H, products_H = (
            each[kind].double().numpy() for each in (closed.squares, closed.products)
        )
        cases_squares, units = int(closed.cases_squares[kind]), int(closed.units[kind])
        if units < 2:
            return cls(hits_H / max(cases, 1) if cases else hits_H + np.nan, hits_H + np.nan, units)
        rate_H = hits_H / cases
        residual_H = squares_H - 2 * rate_H * products_H + rate_H**2 * cases_squares
        # Rounding can leave a sum of squares a little below 0
        residual_H = np.where(residual_H < 1e-12 * squares_H, 0.0, residual_H)
        error_H = np.sqrt(np.maximum(residual_H, 0) * units / (units - 1)) / cases
        return cls(rate_H, error_H, units)

    def p_above(self, null_H: np.ndarray | float) -> np.ndarray:
        """One-sided p of a rate that is at most `null_H`; NaN with fewer than two units."""
        excess_H = self.rate_H - null_H
        with np.errstate(divide="ignore", invalid="ignore"):
            t_H = excess_H / self.error_H  # infinite if all units are alike
        t_H = np.where(excess_H == 0, 0.0, t_H)
        return student.sf(t_H, max(self.units - 1, 1))

    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Both ends of the interval of the rate."""
        margin_H = self.error_H * student.isf(ALPHA, max(self.units - 1, 1))
        return self.rate_H - margin_H, self.rate_H + margin_H


def holm(p: np.ndarray) -> np.ndarray:
    """P-values corrected for as many tests (Holm 1979).

    >>> holm(np.array([0.01, 0.04, 0.03])).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p, kind="stable")
    scaled = p[order] * np.arange(len(p), 0, -1)
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(np.maximum.accumulate(scaled), 1)
    return corrected
