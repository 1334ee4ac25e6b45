"""Significance: whether a difference is larger than the choice of examples can explain.

Every difference has an interval and a p-value of one test, so p < 0.05 exactly where the 95 %
interval leaves 0 out:

- mean losses: the studentized bootstrap (studentized.py);
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
"""

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from jaxtyping import Float, Int

from headcount.core import InputError, amount
from headcount.statistics.p_values import ALPHA
from headcount.statistics.studentized import studentized

SMALLEST = 0.01
"""Smallest p that a head can have after Holm's correction, if enough resamples are drawn."""

FEW = 100
"""Number of examples below which the user is warned."""


@final
@dataclass(frozen=True)
class Delta:
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
