r"""Significance: whether a difference is larger than the choice of examples can explain.

The paired bootstrap draws N examples with replacement, the same ones for both systems, and computes
the difference d* again, S times. The 95 % interval is the range from the 2.5th to the 97.5th
percentile of d*. The two-sided p-value inverts that interval, with one extra resample on the side
of doubt:

$$p = \min\Big(1,\; 2\,\frac{1 + \min(\#\{d^* \le 0\},\, \#\{d^* \ge 0\})}{S + 1}\Big)$$

(`counted`). It can't be below 2 / (S + 1), and a correction for many heads may need less. Where
resamples are expensive, `normal` uses the tail of a normal distribution with the standard deviation
of d*: p = 2 Phi(-|d| / sd). `sacrebleu` is sacreBLEU's definition for BLEU and chrF:
p = (1 + #{ |d*| - mean |d*| > |d| }) / (S + 1). Draws in which a head's score does not exist (a
rank correlation of equal numbers) are left out of that head's S.

With few examples, too many resamples are alike. So no p is below 2^(1-N), the share of sign flips
of N differences that are as extreme as all of one sign, and one example has no interval.

Reference: An Introduction to the Bootstrap (Efron and Tibshirani, 1993), sections 13.3 and 15.4;
    paired scores: Koehn (2004), https://aclanthology.org/W04-3250; one more: Phipson and Smyth
    (2010), https://arxiv.org/abs/1603.05766; many heads: Holm (1979),
    https://www.jstor.org/stable/4615733
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal, final

import numpy as np
from jaxtyping import Float, Int

from headcount.core import InputError
from headcount.tasks import Evaluation, Task

Tail = Literal["counted", "normal", "sacrebleu"]
"""Definition of the p-value of a bootstrap distribution."""

SMALLEST = 0.01
"""Smallest p that a head can have after Holm's correction, if enough resamples are drawn."""

_CHUNK = 2**21
"""Number of draws in memory at a time."""

_KEPT = 2**25
"""Number of resampled differences in memory at a time (256 MiB)."""


@final
@dataclass(frozen=True)
class Delta:
    """A difference between two systems on the same examples."""

    delta: float
    low: float
    high: float
    """The 95 % interval."""
    p: float
    """Two-sided p-value of no difference."""


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
        num_samples: Number of resamples; None for 200 per head and at least 1000, so that the
            smallest p is `SMALLEST` even after Holm's correction.
        seed: Seed of the draws.

    Raises:
        InputError: If there is no example, or a loss is not a finite number.
    """
    _check(len(base_N) * int(count_N.sum()))
    num_samples = num_samples or enough_samples(len(loss_HN))
    more_HN = loss_HN.astype(float) - base_N
    _check_finite(more_HN)
    at_once = max(1, _KEPT // num_samples)
    groups = [
        of_distribution(
            part_HN.sum(1) / count_N.sum(), _ratios(part_HN, count_N, num_samples, seed)
        )
        for part_HN in np.split(more_HN, range(at_once, len(more_HN), at_once))
    ]
    names = (field.name for field in fields(Deltas))
    found = Deltas(*(np.concatenate([getattr(group, name) for group in groups]) for name in names))
    return of_few(found, int(np.count_nonzero(count_N)))


def enough_samples(num_heads: int) -> int:
    """Number of resamples for which Holm's correction over these heads can give p = `SMALLEST`.

    >>> enough_samples(144)
    28800
    """
    return max(1000, int(np.ceil(2 * num_heads / SMALLEST)))


def resamples(
    num_examples: int, num_samples: int, seed: int = 0
) -> Iterator[Int[np.ndarray, "sample example"]]:
    """Numbers of examples drawn with replacement by a seed, some samples at a time."""
    random = np.random.default_rng(seed)
    at_once = max(1, _CHUNK // num_examples)
    for done in range(0, num_samples, at_once):
        yield random.integers(num_examples, size=(min(at_once, num_samples - done), num_examples))


def holm(p_H: Float[np.ndarray, " head"]) -> Float[np.ndarray, " head"]:
    """P-values corrected for testing many heads (Holm 1979).

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


def _ratios(
    more_HN: np.ndarray, count_N: np.ndarray, num_samples: int, seed: int
) -> Float[np.ndarray, "sample head"]:
    """The sum of `more` over the sum of counts, on every resample."""
    ratio_SH = np.empty((num_samples, len(more_HN)))
    done = 0
    for index_SN in resamples(len(count_N), num_samples, seed):
        times_SN = _times(index_SN)
        part = slice(done, done := done + len(times_SN))
        # A resample of only examples without predictions has no difference
        ratio_SH[part] = times_SN @ more_HN.T / np.maximum(times_SN @ count_N, 1)[:, None]
    return ratio_SH


def _times(index_SN: Int[np.ndarray, "sample example"]) -> Float[np.ndarray, "sample example"]:
    """Number of times each example was drawn."""
    samples, examples = index_SN.shape
    flat = index_SN + examples * np.arange(samples)[:, None]
    counts = np.bincount(flat.ravel(), minlength=samples * examples)
    return counts.reshape(samples, examples).astype(float)


def of_distribution(delta_H: np.ndarray, delta_SH: np.ndarray, tail: Tail = "counted") -> Deltas:
    """Intervals and p-values of a bootstrap distribution, by each head's draws with a number."""
    is_known_SH = ~np.isnan(delta_SH)
    if is_known_SH.all():
        return Deltas(np.asarray(delta_H, float), *_of_draws(delta_H, delta_SH, tail))
    found_3H = np.full((3, len(delta_H)), np.nan)
    for head, is_known_S in enumerate(is_known_SH.T):
        if is_known_S.any():
            column_S1 = delta_SH[is_known_S, head, None]
            found_3H[:, head] = np.ravel(_of_draws(delta_H[head, None], column_S1, tail))
    return Deltas(np.asarray(delta_H, float), *found_3H)


def of_few(found: Deltas, num_examples: int) -> Deltas:
    """The same differences, with no more certainty than the number of examples allows.

    >>> of_few(Deltas(*np.array([[0.2], [0.1], [0.3], [0.002]])), 3).p.tolist()
    [0.25]
    """
    p_H = np.maximum(found.p, 2.0 ** (1 - num_examples))
    if num_examples > 1:
        return replace(found, p=p_H)
    unknown_H = np.full_like(p_H, np.nan)
    return Deltas(found.delta, unknown_H, unknown_H, p_H)


def _of_draws(
    delta_H: np.ndarray, delta_SH: np.ndarray, tail: Tail
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The ends of the interval, and p."""
    low_H, high_H = np.percentile(delta_SH, [2.5, 97.5], axis=0)
    if tail == "sacrebleu":
        size_SH = abs(delta_SH)
        larger_H = (size_SH - size_SH.mean(0) > abs(delta_H)).sum(0)
        p_H = (1 + larger_H) / (1 + len(delta_SH))
    elif tail == "counted":
        doubtful_H = np.minimum((delta_SH <= 0).sum(0), (delta_SH >= 0).sum(0))
        p_H = np.minimum(1, 2 * (1 + doubtful_H) / (1 + len(delta_SH)))
    else:
        from scipy.stats import norm

        spread_H = delta_SH.std(0, ddof=1)
        # A head that changes every resample equally has no spread: no effect, or a sure one
        sure_H = np.where(delta_H == 0, 0.0, np.inf)
        far_H = np.divide(abs(delta_H), spread_H, out=sure_H, where=spread_H > 0)
        p_H = 2 * norm.sf(far_H)
    return low_H, high_H, np.asarray(p_H, float)


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


def score_deltas(
    task: Task,
    without: Sequence[Evaluation],
    base: Evaluation,
    num_samples: int = 1000,
    seed: int = 0,
    tail: Tail = "normal",
    index_N: Int[np.ndarray, " example"] | None = None,
) -> Deltas:
    """The drop in score without each head; positive = the head helps.

    Args:
        task: Task that defines the score and its direction.
        without: Evaluations without each head.
        base: Evaluation of the dense model.
        num_samples: Number of resamples; each costs one score per head.
        seed: Seed of the draws.
        tail: Definition of p-values; with `counted`, 1000 resamples are too few for Holm's
            correction over more than 25 heads.
        index_N: Numbers of the examples that count; None for all.
    """
    sign = -1.0 if task.higher_is_better else 1.0
    score_of_base, scores = task.resampled(base), [task.resampled(each) for each in without]

    def worse(index_SN: np.ndarray) -> np.ndarray:
        dense_S = score_of_base(index_SN)
        # A difference of 0 has no sign
        return sign * np.stack([score(index_SN) - dense_S for score in scores], axis=1) + 0.0

    if index_N is None:
        index_N = np.arange(len(base.loss_N))
    draws = resamples(len(index_N), num_samples, seed)
    delta_SH = np.concatenate([worse(index_N[drawn_SN]) for drawn_SN in draws])
    return of_few(of_distribution(worse(index_N[None])[0], delta_SH, tail), len(index_N))
