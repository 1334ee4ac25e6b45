r"""Norm: the length of what a head adds to the residual stream, against its layer.

$$\mathrm{norm}(h) = \frac{n_h}{\frac{1}{H} \sum_{h'} n_{h'}}, \qquad
n_h = \frac{1}{|Q|} \sum_q \lVert A_{h,q} V_h W_O^h \rVert$$

Q are the queries of all examples but padding, H the number of heads of the layer.

Reference: Identifying and Evaluating Inactive Heads in Pretrained LLMs (Sandoval-Segura et al.,
2025), section 3, https://arxiv.org/abs/2504.03889
"""

from collections.abc import Collection
from dataclasses import dataclass
from sys import float_info
from typing import TYPE_CHECKING, final

from headcount import tap, tasks
from headcount.core import MAX_TOKENS, Head
from headcount.importance.score import Score, score_column

if TYPE_CHECKING:
    from torch import Tensor

    from headcount.importance.gradients import Scores
    from headcount.importance.query_means import Seen


@final
class OutputNorm:
    """||A v W_O|| of every query, as ||A (v R)||, without making vectors of the model's width."""

    def columns(self, seen: "Seen") -> "Tensor":
        """The products v R, with one column per dimension of a head."""
        if seen.root_HDD is None:
            return seen.value_BHKD[..., :1].new_full(seen.value_BHKD[..., :1].shape, float("nan"))
        return seen.value_BHKD @ seen.root_HDD.to(seen.value_BHKD)

    def per_query(self, masses_BHQC: "Tensor") -> "Tensor":
        """The length of A v R."""
        return masses_BHQC.norm(dim=-1)


def norm(
    model: "tap.AnyModel",
    task: "tasks.Task",
    anatomy: "tap.Anatomy | None" = None,
    max_tokens: int = MAX_TOKENS,
) -> "Scores":
    """Layer-normalised mean norm of every head's output, from one forward over a task.

    Args:
        model: Model to score.
        task: Task that provides the examples; its labels are not used.
        anatomy: Result of `examine(model)`; examined now if None.
        max_tokens: Number of padded tokens in a batch.
    """
    from headcount.importance.query_means import query_means  # only here: it needs torch

    means = query_means(model, task, OutputNorm(), anatomy, max_tokens)
    tiny = float_info.min  # heads of zeros stay zeros
    return {place: mean_H / mean_H.mean().clamp_min(tiny) for place, mean_H in means.items()}


@dataclass(frozen=True)
class NormScore(Score):
    """Length of what a head adds to the residual stream."""

    name = "norm"
    measure = staticmethod(norm)
    column = score_column(
        "norm_score",
        "output norm",
        "mean norm of its output; 1 is its layer's mean",
        "Sandoval-Segura et al., 2025, arXiv:2504.03889",
    )
    definition = (
        "Mean length of what the head adds to the residual stream, divided by the mean of its "
        "layer."
    )
    by_default = True

    def without(self, found: "Scores", pruned: Collection[Head]) -> "Scores":
        """The norms, relative to a layer in which pruned heads add nothing."""
        added = {place: score_H.clone() for place, score_H in found.items()}
        for head in pruned:
            added[head.layer_id][head.index] = 0
        return {place: score_H / added[place].mean() for place, score_H in found.items()}
