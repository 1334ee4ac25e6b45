r"""Gradient: the sensitivity of the loss to a head's gate.

$$I_h = \frac{1}{N} \sum_x \left| \frac{\partial L(x)}{\partial g_h} \right|
= \frac{1}{N} \sum_x \Big| \sum_q \Big\langle o_{h,q}, \frac{\partial L(x)}{\partial o_{h,q}}
\Big\rangle \Big|$$

L(x) is the summed loss of one example, g_h the head's gate at 1, o_h its output, and N the number
of examples or predicted tokens that the task's loss averages over.

Reference: Are Sixteen Heads Really Better than One? (Michel et al., 2019), section 4.1, https://arxiv.org/abs/1905.10650
Departure: none at level `sample`. The authors' code takes the absolute value per position
(`token`), and later ports take it per batch (`batch`, which depends on how examples are batched).
The code prunes in steps of 0.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from sys import float_info
from typing import TYPE_CHECKING, ClassVar

from headcount import numbers
from headcount.core import MAX_TOKENS, check_choice
from headcount.importance.choices import Level
from headcount.importance.score import Score
from headcount.vocabulary import MICHEL, WORTH, ColumnEntry

if TYPE_CHECKING:
    from torch import Tensor

    from headcount.importance.scores import Scores
    from headcount.models import Loaded
    from headcount.tap import Anatomy, AnyModel
    from headcount.tasks import Task


@dataclass(frozen=True)
class GradientOptions:
    """How gradients are summed."""

    level: Level = "sample"
    """Gradient: unit whose absolute value is taken; sample as in Michel et al. (2019)."""
    normalise: bool = True
    """Gradient: divide each score by the norm over the layer's heads, so that layers compare."""


@dataclass(frozen=True)
class GradientScore(GradientOptions, Score):
    """Sensitivity of the loss to a head's gate."""

    name: ClassVar[str] = "gradient"
    column: ClassVar[ColumnEntry] = ColumnEntry(
        "gradient",
        "gradient",
        WORTH,
        "how much the loss would change if its gate were lowered",
        numbers.effect,
        f"{MICHEL}, section 4.1",
    )
    definition: ClassVar[str] = (
        "Mean over examples of the absolute derivative of the loss with respect to the head's "
        "gate, divided by the norm over its layer unless the run says otherwise."
    )
    needs_gradients: ClassVar[bool] = True
    by_default: ClassVar[bool] = True

    def of(self, loaded: "Loaded", task: "Task", max_tokens: int = MAX_TOKENS) -> "Scores":
        """Gradient importance of every head."""
        return gradient(loaded.model, task, self.level, self.normalise, loaded.anatomy, max_tokens)

    @property
    def depends_on_batches(self) -> bool:
        """Gradients that are summed over a batch depend on its size."""
        return self.level == "batch"

    def signed(self, max_tokens: int) -> Mapping[str, object]:
        """The level, the size of batches on which it depends, and whether layers compare."""
        batches = max_tokens if self.depends_on_batches else None
        return {"level": self.level, "batches": batches, "normalise": self.normalise}


def gradient(
    model: "AnyModel",
    task: "Task",
    level: Level = "sample",
    normalise: bool = True,
    anatomy: "Anatomy | None" = None,
    max_tokens: int = MAX_TOKENS,
) -> "Scores":
    """Gradient importance of every head.

    Args:
        model: Model to score.
        task: Task that defines the loss.
        level: Quantity whose absolute value is summed.
        normalise: Whether to divide by the L2 norm over the layer's heads, to compare layers.
        anatomy: Result of `examine(model)`; examined now if None.
        max_tokens: Number of padded tokens in a batch.

    Returns:
        One score per head, by site and layer, in the unit of the task's loss unless normalised.
    """
    from headcount.importance.gate_gradient import summed  # only here: it needs torch

    check_choice("a level", level, Level)
    size = _size_of_sum if level == "batch" else _sum_of_sizes
    sums, count = summed(model, task, size, anatomy, max_tokens, level)
    return {
        place: _normalised(total / count) if normalise else total / count
        for place, total in sums.items()
    }


def _size_of_sum(gradient: "Tensor") -> "Tensor":
    return gradient.sum(0).abs()


def _sum_of_sizes(gradient: "Tensor") -> "Tensor":
    return gradient.abs().flatten(0, -2).sum(0)


def _normalised(scores_H: "Tensor") -> "Tensor":
    """The scores divided by their L2 norm; zeros stay zeros."""
    return scores_H / scores_H.norm().clamp_min(float_info.min)
