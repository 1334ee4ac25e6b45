r"""Rates of clustered cases: the rate, its standard error, a one-sided test and an interval.

With x hits among n cases in each of U units (sentences), the rate is $r = \sum x / \sum n$ and

$$\mathrm{se}(r) = \frac{1}{\sum n} \sqrt{\frac{U}{U - 1} \sum (x - r n)^2},
\qquad t = \frac{r - r_0}{\mathrm{se}(r)},$$

which is Student's t with U - 1 degrees of freedom if the rate is at most $r_0$. The interval holds
90 % of the cases in theory: its lower end is above $r_0$ exactly when p < 0.05.

Reference: cluster-robust errors: Cameron & Miller (2015), https://doi.org/10.3368/jhr.50.2.317
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float
from scipy.stats import t as student

from headcount.statistics.p_values import ALPHA


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
    def of(
        cls,
        hits_H: np.ndarray,
        cases: int,
        squares_H: Float[np.ndarray, " head"],
        products_H: Float[np.ndarray, " head"],
        cases_squares: int,
        units: int,
    ) -> "ClusteredRates":
        """Rates from sums over units.

        Args:
            hits_H: sum of x.
            cases: sum of n.
            squares_H: sum of x squared.
            products_H: sum of x n.
            cases_squares: sum of n squared.
            units: number of units with cases.
        """
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
