"""Drawn: some examples of a task, where all of them would cost more than they tell."""

from dataclasses import replace
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Int
from transformers import PreTrainedModel

from headcount.tasks.task import Answers, Distils, Evaluation, Losses, Task, TaskBatch
from headcount.tasks.translation import Translation


def drawn(task: Task, most: int, seed: int = 0) -> Task:
    """At most so many examples of a task, drawn without return; the task itself if it has no more.

    Args:
        task: all examples.
        most: examples that are drawn.
        seed: of the draw.

    Raises:
        InputError: for a larger task that makes only its own batches.
    """
    if task.num_examples <= most:
        return task
    index_N = np.sort(np.random.default_rng(seed).choice(task.num_examples, most, replace=False))
    return task.some(index_N) if isinstance(task, Translation) else Drawn(task, index_N)


@final
class Drawn(Task):
    """Examples of another task, by their numbers there; they are numbered anew, from 0."""

    whole: Task
    """The other task."""
    name: str  # pyright: ignore[reportIncompatibleVariableOverride]
    distils: Distils | None  # pyright: ignore[reportIncompatibleVariableOverride]
    writes: bool  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, whole: Task, index_N: Int[np.ndarray, " example"]) -> None:
        self.whole, self._index_N = whole, index_N
        self.name, self.metric = whole.name, whole.metric
        self.higher_is_better, self.writes = whole.higher_is_better, whole.writes
        self.distils = whole.distils
        self.num_examples = len(index_N)
        self.sha256 = whole.sha256_of(index_N)
        self._length_N = whole.length_N[index_N]

    @property
    def length_N(self) -> Int[np.ndarray, " example"]:
        """As in the whole task."""
        return self._length_N

    def batch(self, index_E: Int[np.ndarray, " example"]) -> TaskBatch:
        """The whole task's, with the numbers that the examples have here."""
        return self._numbered(self.whole.batch(self._index_N[index_E]), index_E)

    def training_batch(self, index_E: Int[np.ndarray, " example"], number: int) -> TaskBatch:
        """The whole task's, likewise."""
        batch = self.whole.training_batch(self._index_N[index_E], number)
        return self._numbered(batch, index_E)

    def losses(self, model: PreTrainedModel, batch: TaskBatch) -> Losses:
        """The whole task's."""
        return self.whole.losses(model, batch)

    def output(self, model: PreTrainedModel, batch: TaskBatch, **more: Any) -> Any:
        """The whole task's."""
        return self.whole.output(model, batch, **more)

    def losses_of(self, output: Any, batch: TaskBatch) -> Losses:
        """The whole task's."""
        return self.whole.losses_of(output, batch)

    def answers(self, output: Any, batch: TaskBatch) -> Answers:
        """The whole task's."""
        return self.whole.answers(output, batch)

    def with_texts(
        self, evaluation: Evaluation, model: PreTrainedModel, max_tokens: int = 4096
    ) -> Evaluation:
        """What the model writes for these examples; the whole task makes it for all of its own."""
        if not self.writes:
            return evaluation
        outcome_N = self.whole.with_texts(self._spread(evaluation), model, max_tokens).outcome_N
        return replace(evaluation, outcome_N=outcome_N[self._index_N])

    def score(
        self, evaluation: Evaluation, index_S: Int[np.ndarray, " sample"] | None = None
    ) -> float:
        """The whole task's score, over the examples drawn or some of them."""
        index_S = np.arange(self.num_examples) if index_S is None else index_S
        return self.whole.score(self._spread(evaluation), self._index_N[index_S])

    def _numbered(self, batch: TaskBatch, index_E: Int[np.ndarray, " example"]) -> TaskBatch:
        return replace(batch, index_E=torch.from_numpy(np.asarray(index_E)))

    def _spread(self, evaluation: Evaluation) -> Evaluation:
        """The evaluation as the whole task numbers examples; where none was drawn is never read."""
        shape = self.whole.num_examples
        loss, count = np.full(shape, np.nan), np.ones(shape, np.int64)
        kind = evaluation.outcome_N.dtype
        outcome = np.full(shape, "" if kind.hasobject else np.nan, kind)
        loss[self._index_N], count[self._index_N] = evaluation.loss_N, evaluation.count_N
        outcome[self._index_N] = evaluation.outcome_N
        return Evaluation(loss, count, outcome)
