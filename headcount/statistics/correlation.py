r"""Correlation: whether two numbers rank the same things alike, with an interval.

$$\rho = r(\mathrm{rank}\,x, \mathrm{rank}\,y), \qquad
\tanh\!\Big(\mathrm{artanh}\,\rho \pm 1.96 \sqrt{\tfrac{1 + \rho^2 / 2}{n - 3}}\Big)$$

Spearman's rank correlation is Pearson's of the ranks, in [-1, 1]; equal numbers share their mean
rank. The interval treats the n things as independent draws.

Reference: The Proof and Measurement of Association between Two Things (Spearman, 1904),
    https://doi.org/10.2307/1412159; Sample Size Requirements for Estimating Pearson, Kendall and
    Spearman Correlations (Bonett and Wright, 2000), https://doi.org/10.1007/BF02294183
"""

import numpy as np
from jaxtyping import Float

from headcount.statistics.bootstrap import Estimate


def correlated(
    one: Float[np.ndarray, " case"], other: Float[np.ndarray, " case"], ranks: bool = True
) -> Estimate:
    """Spearman's or Pearson's correlation with its 95 % interval.

    Cases without one of the numbers (NaN) are left out. The correlation is NaN over fewer than 4
    cases, or where one number is the same for all of them. Pearson's interval uses Fisher's
    variance, 1 / (n - 3), instead of Bonett and Wright's.
    """
    from scipy.stats import norm, rankdata

    known = ~(np.isnan(one) | np.isnan(other))
    x, y = (rankdata(each[known]) if ranks else each[known] for each in (one, other))
    num = int(known.sum())
    if num < 4 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return Estimate(np.nan, np.nan, np.nan, num)
    rho = float(np.clip(np.corrcoef(x, y)[0, 1], -1, 1))
    spread = np.sqrt((1 + rho**2 / 2 if ranks else 1) / (num - 3))
    # A perfect correlation lies at infinity, which rounding may just miss
    middle = np.copysign(np.inf, rho) if 1 - abs(rho) < 1e-12 else np.arctanh(rho)
    wide = float(norm.ppf(0.975))
    low, high = (float(np.tanh(middle + side * wide * spread)) for side in (-1, 1))
    return Estimate(rho, low, high, num)


def rank_correlations(
    a_RC: Float[np.ndarray, "row case"], b_RC: Float[np.ndarray, "row case"]
) -> Float[np.ndarray, " row"]:
    """Spearman's correlation of every row; NaN where one side is constant."""
    from scipy.stats import rankdata

    a_RC, b_RC = (rankdata(each, axis=1) for each in (a_RC, b_RC))
    a_RC, b_RC = (each - each.mean(1, keepdims=True) for each in (a_RC, b_RC))
    spread_R = np.sqrt((a_RC**2).sum(1) * (b_RC**2).sum(1))
    unknown_R = np.full(len(a_RC), np.nan)
    return np.divide((a_RC * b_RC).sum(1), spread_R, out=unknown_R, where=spread_R > 0)
