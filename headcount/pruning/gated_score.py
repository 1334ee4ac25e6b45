"""Gated: how good a model is with pruned heads gated to 0, as its compact model will be."""

from headcount.core import Plan
from headcount.models import Loaded
from headcount.tap import Anatomy, Tap
from headcount.tasks import Evaluation, Task, evaluate


def evaluate_gated(
    loaded: Loaded,
    plan: Plan,
    task: Task,
    max_tokens: int = 4096,
    texts: bool = True,
    anatomy: Anatomy | None = None,
) -> Evaluation:
    """A task's losses and outcomes, with the pruned heads gated to 0.

    Args:
        loaded: the dense model.
        plan: which heads are kept.
        task: the task to evaluate on.
        max_tokens: largest number of padded tokens in a batch.
        texts: also generate texts, in tasks such as translation.
        anatomy: a known anatomy, so that copies of a model are not each examined.
    """
    anatomy = anatomy or loaded.anatomy
    with Tap(loaded.model, anatomy, gates=plan.gates(anatomy.heads)):
        return evaluate(loaded.model, task, max_tokens, texts)


def drop(task: Task, before: Evaluation, after: Evaluation) -> float:
    """The drop of the score, in its own unit; positive means worse."""
    sign = 1 if task.higher_is_better else -1
    return sign * (task.score(before) - task.score(after))
