"""Before and after: a data set's numbers of two models, with intervals, and slice by slice."""

from dataclasses import asdict, dataclass
from typing import Any, final

import numpy as np

from headcount.importance.score_significance import score_deltas
from headcount.importance.significance import loss_deltas
from headcount.tasks import Evaluation, Task


@final
@dataclass(frozen=True, eq=False)
class BeforeAfter:
    """What the whole model and the pruned one did on a data set."""

    task: Task
    before: Evaluation
    after: Evaluation

    def record(self, parts: dict[str, np.ndarray] | None = None, seed: int = 0) -> dict[str, Any]:
        """Losses and scores, how much worse with 95 % intervals and p, and the same by slice.

        `drop` is positive where the pruned model is worse; so is `rise` of the loss.
        """
        task, before, after = self.task, self.before, self.after
        tail = "sacrebleu" if task.writes else "counted"
        dropped = score_deltas(task, [after], before, 1000, seed, tail)[0]
        risen = loss_deltas(after.loss_N[None], before.loss_N, before.count_N, 1000, seed)[0]
        return {
            "examples": task.num_examples,
            "metric": task.metric,
            "higher_is_better": task.higher_is_better,
            "score": {"before": task.score(before), "after": task.score(after)},
            "loss": {"before": before.loss, "after": after.loss},
            "drop": asdict(dropped),
            "rise": asdict(risen),
            "slices": {name: self._slice(index_S) for name, index_S in (parts or {}).items()},
        }

    def _slice(self, index_S: np.ndarray) -> dict[str, Any]:
        """The same numbers on some examples only, without intervals."""
        count = self.before.count_N[index_S].sum()
        scores = [self.task.score(each, index_S) for each in (self.before, self.after)]
        losses = [float(each.loss_N[index_S].sum() / count) for each in (self.before, self.after)]
        return {
            "examples": len(index_S),
            "score": dict(zip(("before", "after"), scores, strict=True)),
            "loss": dict(zip(("before", "after"), losses, strict=True)),
        }
