"""Significance of scores: whether a task's score drops without a head by more than chance.

Scores that are functions of sums (BLEU, chrF, accuracy, F1, Matthews' correlation) are tested by
paired approximate randomization. Others (Spearman's correlation, perplexity) are resampled.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from headcount.importance.choices import ScoreTest
from headcount.statistics import (
    FEWEST_SWAPS,
    Deltas,
    OfSums,
    enough_samples,
    normal,
    of_few,
    randomized,
    resamples,
    sacrebleus,
)
from headcount.tasks import Evaluation, Task


def score_deltas(
    task: Task,
    without: Sequence[Evaluation],
    base: Evaluation,
    num_samples: int | None = None,
    seed: int = 0,
    test: ScoreTest = "randomization",
    index_N: Int[np.ndarray, " example"] | None = None,
) -> Deltas:
    """The drop in score without each head; positive = the head helps.

    Args:
        task: Task that defines the score and its direction.
        without: Evaluations without each head.
        base: Evaluation of the dense model.
        num_samples: Number of swaps or resamples; None for at least 10,000 swaps, or for 1000
            resamples of a score that is not a function of sums.
        seed: Seed of the draws.
        test: `randomization`, or sacreBLEU's bootstrap, which gives no intervals.
        index_N: Numbers of the examples that count; None for all.
    """
    if index_N is None:
        index_N = np.arange(len(base.loss_N))
    counts = None if test == "sacrebleu" else task.statistics(base)
    if counts is not None:
        base_NK = counts[index_N]
        each = [np.asarray(task.statistics(one))[index_N] for one in without]
        num_samples = num_samples or max(FEWEST_SWAPS, enough_samples(len(without)))
        weight_N = base.count_N[index_N].astype(float)
        found = randomized(
            base_NK, each, weight_N, score=_higher(task), num_samples=num_samples, seed=seed
        )
        return of_few(Deltas(*found), len(index_N))
    if num_samples is None:
        num_samples = enough_samples(len(without)) if test == "sacrebleu" else 1000
    delta_H, delta_SH = _resampled(
        task, without, base, num_samples=num_samples, seed=seed, index_N=index_N
    )
    if test == "sacrebleu":
        return of_few(sacrebleus(delta_H, delta_SH), len(index_N))
    return of_few(normal(delta_H, delta_SH, len(index_N)), len(index_N))


def _higher(task: Task) -> OfSums:
    """The task's score of sums, with its sign flipped where lower is better."""
    return task.of_sums if task.higher_is_better else lambda sums_DK: -task.of_sums(sums_DK)


def _resampled(
    task: Task,
    without: Sequence[Evaluation],
    base: Evaluation,
    num_samples: int,
    seed: int,
    index_N: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The drops in score, of all examples and of every resample."""
    sign = -1.0 if task.higher_is_better else 1.0
    score_of_base, scores = task.resampled(base), [task.resampled(each) for each in without]

    def worse(index_SN: np.ndarray) -> np.ndarray:
        dense_S = score_of_base(index_SN)
        # A difference of 0 has no sign
        return sign * np.stack([score(index_SN) - dense_S for score in scores], axis=1) + 0.0

    draws = resamples(len(index_N), num_samples, seed)
    delta_SH = np.concatenate([worse(index_N[drawn_SN]) for drawn_SN in draws])
    return worse(index_N[None])[0], delta_SH
