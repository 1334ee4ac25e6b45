"""Gain: a pruned model, mended, and what that gained."""

from dataclasses import dataclass
from typing import Any, final

from transformers import PreTrainedModel

from headcount.models.anatomy import Anatomy
from headcount.models.load import Loaded
from headcount.pruning.plan import Plan
from headcount.tap import Tap
from headcount.tasks import Task, evaluate


@final
@dataclass(frozen=True, eq=False)
class Mended:
    """A copy of a model whose weights make up for the heads that go."""

    loaded: Loaded
    """With all heads still: the plan is for it too."""
    before: float
    """Loss of the pruned model, in the task's unit."""
    after: float
    """Loss of the pruned model that was mended."""
    record: dict[str, Any]
    """How that was done."""

    @property
    def gained(self) -> float:
        """By how much the loss fell."""
        return self.before - self.after


def pruned_loss(
    model: PreTrainedModel, anatomy: Anatomy, plan: Plan, task: Task, max_tokens: int = 4096
) -> float:
    """Mean loss of a model without the heads that go."""
    with Tap(model, anatomy, gates=plan.gates(anatomy.heads)):
        return evaluate(model, task, max_tokens).loss
