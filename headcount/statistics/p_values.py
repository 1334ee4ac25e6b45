r"""P-values: of a number among draws, of many tests together, and of rates of clustered cases.

Draws: the random numbers that tests of significance share, made by a seed in parts.

Power: how large an effect must be for a test of this size to see it. An effect $\delta$ with
standard error $s$, one of $m$ that are corrected by Bonferroni's bound (Holm's first step), has
p < $\alpha$ with probability

$$\Phi\left(\frac{|\delta|}{s} - z_{1 - \alpha / 2m}\right), \qquad
\delta_{80} = (z_{1 - \alpha / 2m} + z_{0.8})\, s,$$

so that the effect $\delta_{80}$ is seen in 80 % of cases. The chance of the wrong sign is left out.

References: draws: Phipson and Smyth (2010), https://arxiv.org/abs/1603.05766; many tests: Holm (1979),
    https://www.jstor.org/stable/4615733; power: Bloom (1995), Minimum detectable effects, Evaluation
    Review 19(5), https://doi.org/10.1177/0193841X9501900504
"""  # noqa: E501

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int

from headcount.core import check_free_memory, paced

CHUNK = 2**21
"""Number of draws in memory at a time."""


def resamples(
    num_examples: int, num_samples: int, seed: int = 0
) -> Iterator[Int[np.ndarray, "sample example"]]:
    """Numbers of examples drawn with replacement by a seed, some samples at a time."""
    random = np.random.default_rng(seed)
    for size in _sizes(num_examples, num_samples):
        yield random.integers(num_examples, size=(size, num_examples))


def swaps(
    num_examples: int, num_samples: int, seed: int = 0
) -> Iterator[Float[np.ndarray, "sample example"]]:
    """Fair coins, 1 or 0, for every example of every sample, some samples at a time."""
    random = np.random.default_rng(seed)
    for size in _sizes(num_examples, num_samples):
        yield random.integers(2, size=(size, num_examples), dtype=np.int8).astype(float)


def in_parts(drawn_SN: np.ndarray, width: int) -> Iterator[np.ndarray]:
    """Some rows at a time, so that an array with `width` numbers for each of them fits."""
    at_once = max(1, 2 * CHUNK // width)
    for done in range(0, len(drawn_SN), at_once):
        yield drawn_SN[done : done + at_once]


def times(index_SN: Int[np.ndarray, "sample example"]) -> Float[np.ndarray, "sample example"]:
    """Number of times each example was drawn."""
    samples, examples = index_SN.shape
    flat = index_SN + examples * np.arange(samples)[:, None]
    counts = np.bincount(flat.ravel(), minlength=samples * examples)
    return counts.reshape(samples, examples).astype(float)


def _sizes(num_examples: int, num_samples: int) -> Iterator[int]:
    """Numbers of samples that are in memory together."""
    check_draws(num_samples)
    starts = range(0, num_samples, at_once := max(1, CHUNK // num_examples))
    found = (min(at_once, num_samples - done) for done in starts)
    yield from paced(found, len(starts), f"parts of {num_samples:,} draws")


def check_draws(num_samples: int, width: int = 1) -> None:
    """Check that some numbers of each draw fit into memory.

    Args:
        num_samples: Number of draws.
        width: Number of 8-byte numbers that are kept of each.

    Raises:
        InputError: If they do not.
    """
    check_free_memory(num_samples * width * 8, f"{num_samples:,} draws")


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


USUAL = 0.8
"""Power that is usually asked for."""


def power_of(effect: float, error: float, tests: int, alpha: float = ALPHA) -> float:
    """Probability that an effect has p < `alpha` after correction.

    Args:
        effect: the true effect.
        error: its standard error.
        tests: number of tests that are corrected together.
        alpha: level of the test.
    """
    from scipy.stats import norm

    return float(norm.cdf(abs(effect) / error - norm.isf(alpha / (2 * tests))))


def smallest_seen(error: float, tests: int, alpha: float = ALPHA, wanted: float = USUAL) -> float:
    """The smallest effect that has p < `alpha` after correction with the wanted probability."""
    from scipy.stats import norm

    return float((norm.isf(alpha / (2 * tests)) + norm.ppf(wanted)) * error)


@final
@dataclass(frozen=True)
class ClusteredRates:
    r"""Rates of several heads on the same cases.

    With x hits among n cases in each of U units (sentences), the rate is $r = \sum x / \sum n$ and

    $$\mathrm{se}(r) = \frac{1}{\sum n} \sqrt{\frac{U}{U - 1} \sum (x - r n)^2},
    \qquad t = \frac{r - r_0}{\mathrm{se}(r)},$$

    which is Student's t with U - 1 degrees of freedom if the rate is at most $r_0$. The interval
    holds 90 % of the cases in theory: its lower end is above $r_0$ exactly when p < 0.05.

    Reference: cluster-robust errors: Cameron & Miller (2015), https://doi.org/10.3368/jhr.50.2.317
    """

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
        from scipy.stats import t as student

        excess_H = self.rate_H - null_H
        with np.errstate(divide="ignore", invalid="ignore"):
            t_H = excess_H / self.error_H  # infinite if all units are alike
        t_H = np.where(excess_H == 0, 0.0, t_H)
        return student.sf(t_H, max(self.units - 1, 1))

    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Both ends of the interval of the rate."""
        from scipy.stats import t as student

        margin_H = self.error_H * student.isf(ALPHA, max(self.units - 1, 1))
        return self.rate_H - margin_H, self.rate_H + margin_H
