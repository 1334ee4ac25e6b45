r"""Fisher: the diagonal Fisher information of a head's gate.

$$F_h = \frac{1}{N} \sum_x \left( \frac{\partial L(x)}{\partial g_h} \right)^2$$

L(x) is the summed loss of one of N examples and g_h the head's gate at 1. To second order around a
converged model, the loss rises by half the sum of F over the pruned heads, all layers on one scale.
Its unit is the square of the task's unit of loss.

Reference: A Fast Post-Training Pruning Framework for Transformers (Kwon et al., 2022), section 4.1
(the diagonal Fisher information of masks), https://arxiv.org/abs/2204.09656
Departure: only heads are scored, and pruned under a budget of heads instead of FLOPs. The paper's
later steps (rearranging within layers by blocks, tuning the kept gates) are not part of the score.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headcount import numbers, tap, tasks
from headcount.core import MAX_TOKENS
from headcount.importance.score import Score, score_column

if TYPE_CHECKING:
    from headcount.importance.gradients import Scores


def fisher(
    model: "tap.AnyModel",
    task: "tasks.Task",
    anatomy: "tap.Anatomy | None" = None,
    max_tokens: int = MAX_TOKENS,
) -> "Scores":
    """The diagonal Fisher information of every head's gate.

    Args:
        model: Model to score.
        task: Task that defines the loss.
        anatomy: Result of `examine(model)`; examined now if None.
        max_tokens: Number of padded tokens in a batch.
    """
    from headcount.importance.gradients import summed_slopes  # only here: it needs torch

    sums, _ = summed_slopes(
        model, task, lambda slope_EH: slope_EH.square().sum(0), anatomy, max_tokens
    )
    return {place: sum_H / task.num_examples for place, sum_H in sums.items()}


@dataclass(frozen=True)
class FisherScore(Score):
    """Fisher information of a head's gate."""

    name = "fisher"
    measure = staticmethod(fisher)
    column = score_column(
        "fisher",
        "Fisher information",
        "mean square of what an example's loss would change by its gate",
        "Kwon et al., NeurIPS 2022, arXiv:2204.09656, section 4.1",
        numbers.significant,
    )
    definition = (
        "Mean over examples of the squared derivative of an example's loss with respect to the "
        "head's gate, on one scale for all layers."
    )
    needs_gradients = True
