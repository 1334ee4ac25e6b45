"""Gated: how good a model is with the heads of a plan at 0: what the compact one will be."""

from headcount.models.anatomy import Anatomy
from headcount.models.load import Loaded
from headcount.pruning.plan import Plan
from headcount.tap import Tap
from headcount.tasks import Evaluation, Task, evaluate


def evaluate_gated(
    loaded: Loaded,
    plan: Plan,
    task: Task,
    max_tokens: int = 4096,
    texts: bool = True,
    anatomy: Anatomy | None = None,
) -> Evaluation:
    """A task's losses and outcomes, with the heads that leave gated to 0.

    Args:
        loaded: the whole model.
        plan: which heads stay.
        task: on what.
        max_tokens: padded tokens in a batch.
        texts: translations too, where the model writes.
        anatomy: of a copy of the model, so that it is not examined for each.
    """
    anatomy = anatomy or loaded.anatomy
    with Tap(loaded.model, anatomy, gates=plan.gates(anatomy.heads)):
        return evaluate(loaded.model, task, max_tokens, texts)


def drop(task: Task, before: Evaluation, after: Evaluation) -> float:
    """How much worse the score is, in its own unit: positive = worse."""
    sign = 1 if task.higher_is_better else -1
    return sign * (task.score(before) - task.score(after))
