r"""Gradient: the sensitivity of the loss to a head's gate.

$$I_h = \frac{1}{N} \sum_x \left| \frac{\partial L(x)}{\partial g_h} \right|
= \frac{1}{N} \sum_x \Big| \sum_q \Big\langle o_{h,q}, \frac{\partial L(x)}{\partial o_{h,q}}
\Big\rangle \Big|$$

L(x) is the summed loss of one example, g_h the head's gate at 1, o_h its output, and N the number
of examples or predicted tokens that the task's loss averages over.

Reference: Are Sixteen Heads Really Better than One? (Michel et al., 2019), section 4.1,
https://arxiv.org/abs/1905.10650 Departure: none at level `sample`. The authors' code takes the
absolute value per position (`token`), and later ports take it per batch (`batch`, which depends on
how examples are batched). The code prunes in steps of 0.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from sys import float_info
from typing import TYPE_CHECKING

from headcount import tap, tasks
from headcount.core import MAX_TOKENS, Checked, check_choice
from headcount.importance.choices import Level
from headcount.importance.score import Score, score_column
from headcount.vocabulary import MICHEL

if TYPE_CHECKING:
    from torch import Tensor

    from headcount.importance.gradients import Scores


MOST = 1e4
"""Largest factor between the norms of two layers: gradients below are rounding."""


@dataclass(frozen=True)
class GradientOptions(Checked):
    """How gradients are summed."""

    level: Level = "sample"
    """Gradient: unit whose absolute value is taken; sample as in Michel et al. (2019)."""
    normalise: bool = True
    """Gradient: divide each score by the norm over the layer's heads, so that layers compare."""


def gradient(
    model: "tap.AnyModel",
    task: "tasks.Task",
    level: Level = "sample",
    normalise: bool = True,
    anatomy: "tap.Anatomy | None" = None,
    max_tokens: int = MAX_TOKENS,
) -> "Scores":
    """Gradient importance of every head.

    Args:
        model: Model to score.
        task: Task that defines the loss.
        level: Quantity whose absolute value is summed.
        normalise: Whether to divide by the L2 norm over the layer's heads, to compare layers. A
            norm below 1 / `MOST` of the largest layer's is rounding, and counts as that.
        anatomy: Result of `examine(model)`; examined now if None.
        max_tokens: Number of padded tokens in a batch.

    Returns:
        One score per head, by site and layer, in the unit of the task's loss unless normalised.
    """
    from headcount.importance.gradients import summed_slopes  # only here: it needs torch

    check_choice("a level", level, Level)

    def size(slope: "Tensor") -> "Tensor":
        return slope.sum(0).abs() if level == "batch" else slope.abs().flatten(0, -2).sum(0)

    sums, count = summed_slopes(model, task, size, anatomy, max_tokens, level)
    means = {place: total_H / count for place, total_H in sums.items()}
    if not normalise:
        return means
    norms = {place: float(mean_H.norm()) for place, mean_H in means.items()}
    least = max(max(norms.values()) / MOST, float_info.min)  # zeros stay zeros
    return {place: mean_H / max(norms[place], least) for place, mean_H in means.items()}


@dataclass(frozen=True)
class GradientScore(GradientOptions, Score):
    """Sensitivity of the loss to a head's gate."""

    name = "gradient"
    measure = staticmethod(gradient)
    column = score_column(
        "gradient",
        "gradient",
        "how much the loss would change if its gate were lowered",
        f"{MICHEL}, section 4.1",
    )
    definition = (
        "Mean over examples of the absolute derivative of the loss with respect to the head's "
        "gate, divided by the norm over its layer unless the run says otherwise."
    )
    needs_gradients = True
    by_default = True

    @property
    def depends_on_batches(self) -> bool:
        """Gradients that are summed over a batch depend on its size."""
        return self.level == "batch"

    def signed(self, max_tokens: int) -> Mapping[str, object]:
        """The level, the size of batches on which it depends, and whether layers compare."""
        batches = max_tokens if self.depends_on_batches else None
        return {"level": self.level, "batches": batches, "normalise": self.normalise}
