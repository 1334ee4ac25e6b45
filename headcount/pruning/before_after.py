"""Before and after: two models' numbers on a data set, with intervals, also slice by slice."""

from dataclasses import asdict, dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Int

from headcount.importance.score_significance import score_deltas
from headcount.importance.significance import loss_deltas
from headcount.tasks import Evaluation, Task


@final
@dataclass(frozen=True, eq=False)
class BeforeAfter:
    """Results of the dense and the pruned model on a data set."""

    task: Task
    before: Evaluation
    after: Evaluation

    def record(self, parts: dict[str, np.ndarray] | None = None, seed: int = 0) -> dict[str, Any]:
        """Losses and scores, their changes with 95 % intervals and p, and the same by slice.

        The `drop` of the score and `rise` of the loss are positive if the pruned model is worse.
        """
        return {
            "metric": self.task.metric,
            "higher_is_better": self.task.higher_is_better,
            **self._numbers(np.arange(self.task.num_examples), seed),
            "slices": {
                name: self._numbers(index_S, seed) for name, index_S in (parts or {}).items()
            },
        }

    def _numbers(self, index_S: Int[np.ndarray, " some"], seed: int) -> dict[str, Any]:
        """The numbers over some examples."""
        task, before, after = self.task, self.before, self.after
        tail = "sacrebleu" if task.writes else "counted"
        dropped = score_deltas(task, [after], before, 1000, seed, tail, index_S)[0]
        before_S, after_S = (each.loss_N[index_S] for each in (before, after))
        count_S = before.count_N[index_S]
        risen = loss_deltas(after_S[None], before_S, count_S, 1000, seed)[0]
        return {
            "examples": len(index_S),
            "score": _both(task.score(before, index_S), task.score(after, index_S)),
            "loss": _both(*(float(loss_S.sum() / count_S.sum()) for loss_S in (before_S, after_S))),
            "drop": asdict(dropped),
            "rise": asdict(risen),
        }


def _both(before: float, after: float) -> dict[str, float]:
    return {"before": before, "after": after}
