r"""Sink: the negated attention on the first token.

$$\mathrm{sink}(h) = -\frac{1}{|Q|} \sum_q A_h(q, 1) \in [-1, 0]$$

Q are the queries of all examples but padding; 1 is the first key of a row that is not padding.

Reference: Garbage Attention in Large Language Models (Sok et al., 2026),
https://arxiv.org/abs/2601.06787
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from headcount import tap, tasks
from headcount.core import MAX_TOKENS
from headcount.importance.score import Score, score_column

if TYPE_CHECKING:
    from torch import Tensor

    from headcount.importance.gradients import Scores
    from headcount.importance.query_means import Seen


@final
class FirstMass:
    """The weight of every query on the first token."""

    def columns(self, seen: "Seen") -> "Tensor":
        """One column: 1 at the first token."""
        rows, heads, keys, _ = seen.value_BHKD.shape
        column = seen.value_BHKD.new_zeros(rows, heads, keys, 1)
        return column.scatter_(2, seen.first_B[:, None, None, None].expand(rows, heads, 1, 1), 1.0)

    def per_query(self, masses_BHQC: "Tensor") -> "Tensor":
        """The weight of each query."""
        return masses_BHQC.squeeze(-1)


def sink(
    model: "tap.AnyModel",
    task: "tasks.Task",
    anatomy: "tap.Anatomy | None" = None,
    max_tokens: int = MAX_TOKENS,
) -> "Scores":
    """The negative mean weight on the first token, from one forward over a task.

    Args:
        model: Model to score.
        task: Task that provides the examples; its labels are not used.
        anatomy: Result of `examine(model)`; examined now if None.
        max_tokens: Number of padded tokens in a batch.
    """
    from headcount.importance.query_means import query_means  # only here: it needs torch

    means = query_means(model, task, FirstMass(), anatomy, max_tokens)
    return {place: -mean_H for place, mean_H in means.items()}


@dataclass(frozen=True)
class SinkScore(Score):
    """Negated attention on the first token."""

    name = "sink"
    measure = staticmethod(sink)
    column = score_column(
        "sink_score",
        "sink score",
        "minus the mean weight on the first token",
        "Sok et al., 2026, arXiv:2601.06787",
    )
    definition = "Minus the mean weight on the first token: heads that look there do little."
    by_default = True
