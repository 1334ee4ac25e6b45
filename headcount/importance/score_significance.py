"""Significance of scores: paired bootstrap of a task's own score, and sacreBLEU's test.

The task itself recomputes scores such as accuracy, F1 or Spearman's rank correlation on every
resample; all heads share the resamples. For BLEU and chrF, `tail="sacrebleu"` gives the p-value of
sacreBLEU's paired bootstrap.

Reference: Statistical Significance Tests for Machine Translation Evaluation (Koehn, 2004),
    section 4, https://aclanthology.org/W04-3250
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from headcount.importance.significance import Deltas, Tail, of_distribution, of_few, resamples
from headcount.tasks.task import Evaluation, Task


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
        whole_S = score_of_base(index_SN)
        # A difference of 0 has no sign
        return sign * np.stack([score(index_SN) - whole_S for score in scores], axis=1) + 0.0

    if index_N is None:
        index_N = np.arange(len(base.loss_N))
    draws = resamples(len(index_N), num_samples, seed)
    delta_SH = np.concatenate([worse(index_N[drawn_SN]) for drawn_SN in draws])
    return of_few(of_distribution(worse(index_N[None])[0], delta_SH, tail), len(index_N))
