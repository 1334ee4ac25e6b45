r"""Significance: whether a difference is larger than the choice of examples can explain.

Every difference has an interval and a p-value of one test, so p < 0.05 exactly where the 95 %
interval leaves 0 out:

- mean losses: the studentized bootstrap (see below);
- BLEU, chrF, accuracy, F1, Matthews' correlation: paired approximate randomization
  (randomization.py);
- Spearman's correlation and perplexity: a normal approximation with the standard deviation of
  paired resamples, p = 2 T(-|d| / sd), where T is Student's distribution with N - 1 degrees of
  freedom. Draws in which a head's score does not exist (a rank correlation of equal numbers) are
  left out.

`test="sacrebleu"` is sacreBLEU's bootstrap for all scores, p = (1 + #{ |d*| - mean |d*| > |d| }) /
(S + 1). It gives no interval of the difference. Without any difference, it finds p < 0.05 in about
10 % of cases instead of 5 %.

With few examples, too many resamples are alike. So no p is below 2^(1-N), the share of sign flips
of N differences that are as extreme as all of one sign, and fewer than 6 examples have no interval.

Reference: An Introduction to the Bootstrap (Efron and Tibshirani, 1993), chapters 12 and 13; paired
    scores: Koehn (2004), https://aclanthology.org/W04-3250; one more: Phipson and Smyth (2010),
    https://arxiv.org/abs/1603.05766; many heads: Holm (1979), https://www.jstor.org/stable/4615733

The studentized bootstrap gives intervals of mean losses that hold for few, skewed examples:

$$t^* = \frac{d^* - d}{\mathrm{se}^*}, \qquad
  h(t) = \sqrt{N} \Big( T + \frac{g T^2}{3} + \frac{g^2 T^3}{27} + \frac{g}{6 N} \Big), \quad
  T = \frac{t}{\sqrt{N}}$$

d is a ratio of sums over N examples, se its standard error by linearisation, and g the skewness of
the linearised examples; a star marks a resample. The transformation h removes most of the skewness
of t. With q the 95th percentile of |h(t*)|, the 95 % interval holds every value x with
|h((d - x) / se)| <= q. The two-sided p-value is the share of resamples with |h(t*)| >= |h(d / se)|:

$$p = \frac{1 + \#\{ |h(t^*)| \ge |h(d / \mathrm{se})| \}}{S + 1}$$

Both invert one test, so p < 0.05 exactly where the interval leaves 0 out. Percentile intervals are
too short: with 50 lognormal differences they hold the truth in 90 % of cases (docs/importance.md).

Reference: The Bootstrap and Edgeworth Expansion (Hall, 1992), sections 3.5 and 3.6; On the Removal
    of Skewness by Transformation (Hall, 1992), https://www.jstor.org/stable/2345958
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int

from headcount.core import InputError, amount
from headcount.statistics.p_values import ALPHA, check_draws, in_parts, p_of_draws, resamples, times

KEPT = 2**25
"""Number of resampled differences in memory at a time (256 MiB)."""

NOISE = 1e-12
"""Differences below this share of the largest one are rounding errors."""


def studentized(
    more_HN: Float[np.ndarray, "head example"],
    count_N: Int[np.ndarray, " example"],
    num_samples: int,
    seed: int,
) -> Float[np.ndarray, "4 head"]:
    """Delta, both ends of the interval, and p of sum(more) / sum(count), for every head.

    Args:
        more_HN: Rise of every example's summed loss without each head.
        count_N: Number of terms in each example's summed loss, at least 1.
        num_samples: Number of resamples, which all heads share.
        seed: Seed of the draws.
    """
    check_draws(num_samples)
    at_once = max(1, KEPT // num_samples)
    groups = np.split(more_HN, range(at_once, len(more_HN), at_once))
    return np.concatenate([_of_heads(part, count_N, num_samples, seed) for part in groups], axis=1)


def _of_heads(
    more_HN: np.ndarray, count_N: np.ndarray, num_samples: int, seed: int
) -> Float[np.ndarray, "4 head"]:
    num = len(count_N)
    moments = _Moments(more_HN, count_N.astype(float))
    size_SH = np.empty((num_samples, len(more_HN)))
    done = 0
    for index_SN in resamples(num, num_samples, seed):
        for rows_SN in in_parts(index_SN, 6 * len(more_HN)):
            part = slice(done, done := done + len(rows_SN))
            size_SH[part] = abs(_transformed(*moments.of(times(rows_SN))[:2], num))
    delta_H = moments.delta_H
    _, skew_H, error_H = (each[0] for each in moments.of(np.ones((1, num))))
    own_H = abs(_transformed(_ratio(delta_H, error_H), skew_H, num))
    p_H = p_of_draws(size_SH >= own_H * (1 - NOISE))
    # The interval holds what a test at 5 % does not reject, on the same resamples
    rank = least_rank(num_samples)
    if rank < 1:
        return np.stack([delta_H, *np.full((2, len(delta_H)), np.nan), p_H])
    edge_H = np.partition(size_SH, num_samples - rank, axis=0)[num_samples - rank]
    ends = (_restored(side * edge_H, skew_H, num) for side in (1, -1))
    ends_2H = np.stack([delta_H - np.where(error_H > 0, t_H * error_H, 0) for t_H in ends])
    ends_2H[:, ~np.isfinite(ends_2H).all(0)] = np.nan
    return np.stack([delta_H, *ends_2H, p_H])


def least_rank(num_samples: int) -> int:
    """Number of samples as extreme as a value from which on a test at 5 % does not reject it.

    >>> least_rank(999)
    49
    """
    return int(np.ceil(ALPHA * (num_samples + 1) - 1e-9)) - 1


@final
class _Moments:
    """Sums of powers of every example's distance from the ratio, over any resample."""

    def __init__(self, more_HN: np.ndarray, count_N: np.ndarray) -> None:
        self.delta_H = more_HN.sum(1) / count_N.sum()
        expected_HN = self.delta_H[:, None] * count_N
        z_HN = more_HN - expected_HN
        scale_H = np.maximum(abs(more_HN).max(1), abs(expected_HN).max(1))
        z_HN[abs(z_HN) <= NOISE * scale_H[:, None]] = 0
        powers = (z_HN, z_HN**2, z_HN**3, z_HN * count_N, z_HN**2 * count_N, z_HN * count_N**2)
        self._power_NK = np.concatenate(powers).T
        self._count_NK = np.stack([count_N, count_N**2, count_N**3], axis=1)

    def of(self, times_SN: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The studentized difference from the ratio, the skewness, and the standard error."""
        c_S1, c2_S1, c3_S1 = np.split(times_SN @ self._count_NK, 3, axis=1)
        z, z2, z3, zc, z2c, zc2 = np.split(times_SN @ self._power_NK, 6, axis=1)
        r_SH = z / c_S1
        square_SH = z2 - 2 * r_SH * zc + r_SH**2 * c2_S1
        square_SH[square_SH <= NOISE * z2] = 0
        cube_SH = z3 - 3 * r_SH * z2c + 3 * r_SH**2 * zc2 - r_SH**3 * c3_S1
        num = times_SN.shape[1]
        error_SH = np.sqrt(square_SH * num / max(num - 1, 1)) / c_S1
        skew_SH = _ratio(cube_SH / num, (square_SH / num) ** 1.5, 0.0)
        return _ratio(r_SH, error_SH), skew_SH, error_SH


def _ratio(above: np.ndarray, below: np.ndarray, unknown: float = np.inf) -> np.ndarray:
    """The quotients, 0 where `above` is 0; `unknown` where only `below` is."""
    none = np.where(above == 0, 0.0, unknown)
    return np.divide(above, below, out=none, where=(below > 0) & (above != 0))


def _transformed(t: np.ndarray, skew: np.ndarray, num: int) -> np.ndarray:
    """The statistic without most of its skewness, h(t)."""
    short = np.where(np.isfinite(t), t, 0) / np.sqrt(num)
    cubic = short + skew * short**2 / 3 + skew**2 * short**3 / 27
    return np.where(np.isfinite(t), np.sqrt(num) * (cubic + skew / (6 * num)), t)


def _restored(h: np.ndarray, skew: np.ndarray, num: int) -> np.ndarray:
    """The statistic t that `_transformed` makes h of."""
    rest = h / np.sqrt(num) - skew / (6 * num)
    is_flat = abs(skew) < 1e-6
    curved = np.where(is_flat, 1.0, skew)
    short = np.where(is_flat, rest, 3 / curved * (np.cbrt(1 + curved * rest) - 1))
    return np.sqrt(num) * short


SMALLEST = 0.01
"""Smallest p that a head can have after Holm's correction, if enough resamples are drawn."""

FEW = 100
"""Number of examples below which the user is warned."""


class Delta(NamedTuple):
    """A difference between two systems on the same examples."""

    delta: float
    low: float
    high: float
    """The 95 % interval; NaN if there is none."""
    p: float
    """Two-sided p-value of no difference, by the test that the interval inverts."""


@final
@dataclass(frozen=True)
class Deltas:
    """Differences between the dense model and the model without each head, in order of heads."""

    delta: Float[np.ndarray, " head"]
    low: Float[np.ndarray, " head"]
    high: Float[np.ndarray, " head"]
    p: Float[np.ndarray, " head"]
    """Two-sided p-value of each head on its own; see `holm` for the correction."""

    def __getitem__(self, head: int) -> Delta:
        return Delta(*(float(each[head]) for each in (self.delta, self.low, self.high, self.p)))


def loss_deltas(
    loss_HN: Float[np.ndarray, "head example"],
    base_N: Float[np.ndarray, " example"],
    count_N: Int[np.ndarray, " example"],
    num_samples: int | None = None,
    seed: int = 0,
) -> Deltas:
    r"""The rise of the mean loss without each head, with intervals and p-values.

    d_h = sum_n (loss_hn - base_n) / sum_n count_n, a ratio of sums, resampled as one. All heads
    share the draws, so a product of two matrices computes it.

    Args:
        loss_HN: Summed loss of every example without each head.
        base_N: Summed loss of every example for the dense model.
        count_N: Number of terms in each example's summed loss.
        num_samples: Number of resamples; None for 100 per head and at least 1000, so that the
            smallest p is `SMALLEST` even after Holm's correction.
        seed: Seed of the draws.

    Raises:
        InputError: If there is no example, or a loss is not a finite number.
    """
    _check(len(base_N) * int(count_N.sum()))
    num_samples = num_samples or enough_samples(len(loss_HN))
    more_HN = loss_HN.astype(float) - base_N
    _check_finite(more_HN)
    is_asked_N = count_N > 0  # an example without predictions is none
    found = studentized(more_HN[:, is_asked_N], count_N[is_asked_N], num_samples, seed)
    return of_few(Deltas(*found), int(is_asked_N.sum()))


def normal(
    delta_H: Float[np.ndarray, " head"],
    delta_SH: Float[np.ndarray, "sample head"],
    num_examples: int,
) -> Deltas:
    """Intervals and p-values by Student's distribution with the spread of resampled differences."""
    from scipy.stats import t as student

    delta_H = np.asarray(delta_H, float)
    is_known_SH = ~np.isnan(delta_SH)
    spread_H = np.array(
        [
            draws_S[is_known_S].std(ddof=1) if is_known_S.sum() > 1 else np.nan
            for draws_S, is_known_S in zip(delta_SH.T, is_known_SH.T, strict=True)
        ]
    )
    degrees = max(num_examples - 1, 1)
    spread_H *= np.sqrt(num_examples / degrees)
    # A head that changes every resample equally has no spread: no effect, or a sure one
    sure_H = np.where(delta_H == 0, 0.0, np.inf)
    far_H = np.divide(abs(delta_H), spread_H, out=sure_H, where=spread_H != 0)
    half_H = student.ppf(1 - ALPHA / 2, degrees) * spread_H
    p_H = np.asarray(2 * student.sf(far_H, degrees), float)
    return Deltas(delta_H, delta_H - half_H, delta_H + half_H, p_H)


def sacrebleus(
    delta_H: Float[np.ndarray, " head"], delta_SH: Float[np.ndarray, "sample head"]
) -> Deltas:
    """P-values of sacreBLEU's bootstrap, which gives no intervals.

    *Departure*: p is 1 for a head that changes no resample, where sacreBLEU's strict comparison
    makes it the smallest possible.
    """
    size_SH = abs(delta_SH)
    num_H = (~np.isnan(delta_SH)).sum(0)
    mean_H = np.divide(
        np.nansum(size_SH, 0), num_H, out=np.full(len(num_H), np.nan), where=num_H > 0
    )
    p_H = (1 + (size_SH - mean_H > abs(delta_H)).sum(0)) / (1 + num_H)
    p_H = np.where((mean_H == 0) & (delta_H == 0), 1.0, p_H)
    nan_H = np.full(len(p_H), np.nan)
    return Deltas(np.asarray(delta_H, float), nan_H, nan_H, np.where(num_H > 0, p_H, np.nan))


def enough_samples(num_heads: int) -> int:
    """Number of samples for which Holm's correction over these heads can give p = `SMALLEST`.

    >>> enough_samples(144)
    14400
    """
    return max(1000, int(np.ceil(num_heads / SMALLEST)))


def few_examples(num_examples: int, what: str = "example") -> tuple[str, ...]:
    """A warning if there are too few examples for exact intervals; else nothing.

    >>> few_examples(100)
    ()
    """
    if num_examples >= FEW:
        return ()
    return (
        f"intervals and p-values from {amount(num_examples, what)} are rough: with fewer than "
        f"{FEW}, "
        "95 % intervals of skewed losses hold the truth in about 92 % of cases. Use more of them",
    )


def rough_score(num_examples: int) -> tuple[str, ...]:
    """A warning if there are too few examples for a score that has no interval; else nothing.

    >>> rough_score(1)[0].partition(":")[0]
    'loss and score of 1 example are rough, and have no interval'
    """
    if num_examples >= FEW:
        return ()
    return (
        f"loss and score of {amount(num_examples, 'example')} are rough, and have no interval: "
        f"with fewer than {FEW}, other examples can give quite other numbers. Use more of them",
    )


def of_few(found: Deltas, num_examples: int) -> Deltas:
    """The same differences, with no more certainty than the number of examples allows.

    >>> of_few(Deltas(*np.array([[0.2], [0.1], [0.3], [0.002]])), 3).p.tolist()
    [0.25]
    """
    least = 2.0 ** (1 - num_examples)
    found = replace(found, p=np.maximum(found.p, least))
    if least < ALPHA:
        return found
    nan_H = np.full_like(found.p, np.nan)
    return replace(found, low=nan_H, high=nan_H)


def _check(number: int) -> None:
    if number < 1:
        raise InputError(
            "Expected at least one example with something to predict, to compare two systems on, "
            "got none."
        )


def _check_finite(more_HN: np.ndarray) -> None:
    broken = np.argwhere(~np.isfinite(more_HN))
    if len(broken):
        head, example = broken[0]
        raise InputError(
            f"Expected finite losses, but the loss of example {example} is not finite without head "
            f"{head} of {len(more_HN)}, or with all heads."
        )
