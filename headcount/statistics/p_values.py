"""P-values: of a number among draws, and of many tests together.

References: draws: Phipson and Smyth (2010), https://arxiv.org/abs/1603.05766; many tests: Holm (1979),
    https://www.jstor.org/stable/4615733
"""  # noqa: E501

import numpy as np
from jaxtyping import Bool, Float

ALPHA = 0.05
"""Level of a test: an interval leaves out the values that the test rejects with p < `ALPHA`."""

_TIE = 1e-12
"""Numbers that differ by less are equal up to rounding."""


def p_of_draws(
    is_extreme_D: Bool[np.ndarray, "draw ..."],
) -> Float[np.ndarray, "..."]:
    """P-values of tests that draw: the share of draws that are as extreme as what was found.

    What was found counts as one more draw, so no p is 0.

    >>> float(p_of_draws(np.arange(99) < 4))
    0.05
    """
    return np.asarray((1 + is_extreme_D.sum(0)) / (1 + len(is_extreme_D)))


def p_at_least(value: float, drawn_D: Float[np.ndarray, " draw"]) -> float:
    """The one-sided p-value of a number among draws; ties up to rounding count as at least it.

    >>> p_at_least(0.3, np.array([0.1, 0.1 + 0.2, 0.4]))
    0.75
    """
    return float(p_of_draws(drawn_D >= value - _TIE))


def holm(p_H: Float[np.ndarray, " test"]) -> Float[np.ndarray, " test"]:
    """P-values corrected for as many tests (Holm 1979).

    The i-th smallest of m is multiplied by m - i + 1, raised to at least the values before it, and
    limited to 1. NaN stays NaN and is not counted.

    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    adjusted_H = np.full(len(p_H), np.nan)
    (known,) = np.nonzero(~np.isnan(p_H))
    order = known[np.argsort(p_H[known], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted_H[order] = np.minimum(1, np.maximum.accumulate(p_H[order] * factors))
    return adjusted_H
