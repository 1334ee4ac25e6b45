"""Auto: of several cheap scores, the one whose choice costs the model least under the budget.

Which score predicts best what pruning costs depends on the model. So every candidate ranks the
heads on one half of the examples. The heads that it would keep under the budget are then measured
on the other half, with the others gated to 0. The candidate with the lowest loss there ranks the
heads again on all examples. This takes a ranking and a forward pass for each candidate.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from headcount.core import InputError
from headcount.pruning.before_after import evaluate_gated
from headcount.pruning.budget import Keep
from headcount.pruning.context import PruningContext
from headcount.pruning.methods.by_score import BY_SCORE
from headcount.pruning.methods.method import Method, RankingMethod, Selection
from headcount.pruning.options import AutoOptions
from headcount.tasks import Task, some

CANDIDATES = ("gradient", "fisher", "norm", "sink")
"""The scores to try."""


@final
@dataclass(frozen=True)
class Auto(AutoOptions, Method):
    """Tries the scores by gradient, Fisher information, norm and sink, and takes the best."""

    def choose(self, context: PruningContext, keep: Keep) -> Selection:
        """Choose by the candidate whose kept heads have the lowest loss on unseen examples.

        Raises:
            InputError: for a budget that the units can't meet, or fewer than two examples.
        """
        first, second = halves(context.sample, context.seed)
        trial = replace(context, train=first, calibration=first.num_examples, state=None)
        losses: dict[str, float] = {}
        context.progress("candidates", 0, len(self._candidates()))
        for number, (name, candidate) in enumerate(self._candidates().items()):
            plan = candidate.choose(trial, keep).plan
            measured = context.watched(second, f"kept by {name}")
            found = evaluate_gated(context.loaded, plan, measured, context.max_tokens, texts=False)
            losses[name] = found.loss
            context.progress("candidates", number + 1, len(self._candidates()))
        best = min(losses, key=losses.__getitem__)
        return replace(self._candidates()[best].choose(context, keep), compared=losses)

    def _candidates(self) -> Mapping[str, RankingMethod]:
        return {name: RankingMethod(BY_SCORE[name](self.step)) for name in CANDIDATES}


def halves(task: Task, seed: int) -> tuple[Task, Task]:
    """Two halves of a task's examples, drawn at random.

    Raises:
        InputError: for fewer than two examples.
    """
    if task.num_examples < 2:
        raise InputError(
            f"Expected at least 2 examples, to score heads on one half and measure on the other, "
            f"got {task.num_examples}. Give more data, or name a --method."
        )
    order_N = np.random.default_rng(seed).permutation(task.num_examples)
    middle = task.num_examples // 2
    return some(task, np.sort(order_N[:middle])), some(task, np.sort(order_N[middle:]))
