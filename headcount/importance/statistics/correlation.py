r"""Correlation of two scores over heads, and of a head's effects on two data sets.

$$\rho = r(\mathrm{rank}\,x, \mathrm{rank}\,y), \qquad
\tanh\!\Big(\mathrm{artanh}\,\rho \pm 1.96 \sqrt{\tfrac{1 + \rho^2 / 2}{n - 3}}\Big)$$

Spearman's rank correlation over the n heads that have both numbers (equal numbers share their mean
rank), in [-1, 1], with its 95 % interval. NaN with fewer than 4 heads, or where all are equal.

Reference: Sample Size Requirements for Estimating Pearson, Kendall and Spearman Correlations
    (Bonett and Wright, 2000), https://doi.org/10.1007/BF02294183; two data sets: Are Sixteen Heads
    Really Better than One? (Michel et al., 2019), section 3.4, https://arxiv.org/abs/1905.10650
"""

from dataclasses import dataclass
from typing import final

import numpy as np
import pandas as pd
from jaxtyping import Float

from headcount.core import InputError
from headcount.results import Correlation


def correlation(
    one: Float[np.ndarray, " head"], other: Float[np.ndarray, " head"], ranks: bool = True
) -> Correlation:
    """Spearman's or Pearson's correlation of two scores, with its interval.

    Pearson's interval uses Fisher's variance, 1 / (n - 3), instead of Bonett and Wright's.
    """
    from scipy.stats import norm, rankdata

    known = ~(np.isnan(one) | np.isnan(other))
    x, y = (rankdata(each[known]) if ranks else each[known] for each in (one, other))
    num = int(known.sum())
    if num < 4 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return Correlation(np.nan, np.nan, np.nan, num)
    rho = float(np.clip(np.corrcoef(x, y)[0, 1], -1, 1))
    spread = np.sqrt((1 + rho**2 / 2 if ranks else 1) / (num - 3))
    # A perfect correlation lies at infinity, which rounding may just miss
    middle = np.copysign(np.inf, rho) if 1 - abs(rho) < 1e-12 else np.arctanh(rho)
    wide = float(norm.ppf(0.975))
    low, high = (float(np.tanh(middle + side * wide * spread)) for side in (-1, 1))
    return Correlation(rho, low, high, num)


@final
@dataclass(frozen=True)
class Effects:
    """Correlations of heads' effects between two data sets."""

    pearson: Correlation
    """Pearson's correlation, as in the paper."""
    spearman: Correlation


def effects(
    frame_a: pd.DataFrame, frame_b: pd.DataFrame, column: str = "ablation_delta"
) -> Effects:
    """Correlations of single-head effects between two data sets of one task.

    Args:
        frame_a: Head table of one data set.
        frame_b: Head table of the other data set, for the same model.
        column: Column of the effect.

    Raises:
        InputError: If the tables have different heads, or one lacks the column.
    """
    for frame in (frame_a, frame_b):
        if column not in frame:
            raise InputError(f"Expected two tables with the column {column}, but one has none.")
    a, b = (frame.set_index("head")[column].astype(float) for frame in (frame_a, frame_b))
    strangers = sorted(set(a.index) ^ set(b.index))
    if strangers:
        raise InputError(
            f"Expected two tables with the same heads, but {strangers[0]} is in only one "
            f"({len(strangers)} such heads)."
        )
    one, other = a.to_numpy(), b.loc[a.index].to_numpy()
    return Effects(correlation(one, other, ranks=False), correlation(one, other))
