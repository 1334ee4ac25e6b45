r"""Shrunken estimates: what to expect of estimates that were picked because they are large.

Of many estimates $y_i$ with standard errors $s_i$, those that pass a threshold are too large on
average. If the true values are spread normally with mean $\mu$ and variance $\tau^2$, then

$$\hat\theta_i = \hat\mu + \frac{\hat\tau^2}{\hat\tau^2 + s_i^2} (y_i - \hat\mu)$$

is right on average, whatever was picked. The mean is weighted by $1 / (\tau^2 + s_i^2)$, and the
variance solves $\sum (y_i - \hat\mu)^2 / (\tau^2 + s_i^2) = n - 1$; it is 0 if nothing does.

Reference: Efron & Morris (1975), https://doi.org/10.1080/01621459.1975.10479864; the variance:
    Paule & Mandel (1982), https://doi.org/10.6028/jres.087.022; selection: Efron (2011), section 1,
    https://doi.org/10.1198/jasa.2011.tm11181
"""

import numpy as np
from jaxtyping import Float

FEWEST = 4
"""Least number of estimates that are shrunken; the spread of fewer is not known."""
_STEPS = 60
_LEAST = 1e-12


def shrunken(
    estimate_N: Float[np.ndarray, " estimate"], error_N: Float[np.ndarray, " estimate"]
) -> Float[np.ndarray, " estimate"]:
    """Estimates, drawn to their mean as far as chance spreads them; as they are below `FEWEST`.

    Args:
        estimate_N: the estimates, picked or not.
        error_N: their standard errors.
    """
    if len(estimate_N) < FEWEST:
        return estimate_N
    variance_N = np.maximum(error_N**2, _LEAST)
    low, high = 0.0, float(np.ptp(estimate_N) ** 2)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _excess(estimate_N, variance_N + middle) > 0:
            low = middle
        else:
            high = middle
    mean = _mean(estimate_N, variance_N + low)
    return mean + low / (low + variance_N) * (estimate_N - mean)


def _mean(estimate_N: np.ndarray, variance_N: np.ndarray) -> float:
    return float((estimate_N / variance_N).sum() / (1 / variance_N).sum())


def _excess(estimate_N: np.ndarray, variance_N: np.ndarray) -> float:
    """Sum of squares beyond what is expected; falls as variances rise."""
    mean = _mean(estimate_N, variance_N)
    return float(((estimate_N - mean) ** 2 / variance_N).sum()) - (len(estimate_N) - 1)
