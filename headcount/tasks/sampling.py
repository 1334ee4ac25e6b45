"""Drawn: a random subset of a task's examples, if using all of them would cost too much."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float, Int
from transformers import PreTrainedModel

from headcount.core import MAX_TOKENS
from headcount.tasks.task import Answers, Distils, Evaluation, Losses, Task, TaskBatch
from headcount.tasks.translation import Translation


def drawn(task: Task, most: int, seed: int = 0) -> Task:
    """Draw at most `most` examples without replacement; returns the task itself if it has no more.

    Args:
        task: the task with all examples.
        most: largest number of examples.
        seed: seed of the draw.

    Raises:
        InputError: for a larger task that makes only its own batches.
    """
    if task.num_examples <= most:
        return task
    index_N = np.sort(np.random.default_rng(seed).choice(task.num_examples, most, replace=False))
    return some(task, index_N)


def some(task: Task, index_N: Int[np.ndarray, " example"]) -> Task:
    """A task of some examples, by their numbers."""
    return task.some(index_N) if isinstance(task, Translation) else Drawn(task, index_N)


@final
class Drawn(Task):
    """Some examples of another task, renumbered from 0."""

    whole: Task
    """The task that the examples come from."""
    name: str  # pyright: ignore[reportIncompatibleVariableOverride]
    distils: Distils | None  # pyright: ignore[reportIncompatibleVariableOverride]
    writes: bool  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, whole: Task, index_N: Int[np.ndarray, " example"]) -> None:
        self.whole, self._index_N = whole, index_N
        self.name, self.metric = whole.name, whole.metric
        self.higher_is_better, self.writes = whole.higher_is_better, whole.writes
        self.distils = whole.distils
        self.num_examples, self.outcome_shape = len(index_N), whole.outcome_shape
        self.sha256 = whole.sha256_of(index_N)
        self._length_N = whole.length_N[index_N]

    @property
    def signature(self) -> str:
        """The original task's."""
        return self.whole.signature

    @property
    def signed_options(self) -> Mapping[str, object]:
        """The original task's."""
        return self.whole.signed_options

    @property
    def length_N(self) -> Int[np.ndarray, " example"]:
        """Padded tokens of every example, as in the original task."""
        return self._length_N

    def batch(self, index_E: Int[np.ndarray, " example"]) -> TaskBatch:
        """The original task's batch, with the numbers that the examples have here."""
        return self._numbered(self.whole.batch(self._index_N[index_E]), index_E)

    def training_batch(self, index_E: Int[np.ndarray, " example"], number: int) -> TaskBatch:
        """The original task's training batch, with the numbers that the examples have here."""
        batch = self.whole.training_batch(self._index_N[index_E], number)
        return self._numbered(batch, index_E)

    def losses(self, model: PreTrainedModel, batch: TaskBatch) -> Losses:
        """The original task's losses."""
        return self.whole.losses(model, batch)

    def output(self, model: PreTrainedModel, batch: TaskBatch, **more: Any) -> Any:
        """The original task's output."""
        return self.whole.output(model, batch, **more)

    def losses_of(self, output: Any, batch: TaskBatch) -> Losses:
        """The original task's losses of an output."""
        return self.whole.losses_of(output, batch)

    def answers(self, output: Any, batch: TaskBatch) -> Answers:
        """The original task's answers."""
        return self.whole.answers(output, batch)

    def with_texts(
        self, evaluation: Evaluation, model: PreTrainedModel, max_tokens: int = MAX_TOKENS
    ) -> Evaluation:
        """The model's texts for these examples; the original task writes those of all examples."""
        if not self.writes:
            return evaluation
        outcome_N = self.whole.with_texts(self._spread(evaluation), model, max_tokens).outcome_N
        return replace(evaluation, outcome_N=outcome_N[self._index_N])

    def score(
        self, evaluation: Evaluation, index_S: Int[np.ndarray, " sample"] | None = None
    ) -> float:
        """The original task's score, over the examples drawn or some of them."""
        index_S = np.arange(self.num_examples) if index_S is None else index_S
        return self.whole.score(self._spread(evaluation), self._index_N[index_S])

    def statistics(self, evaluation: Evaluation) -> Float[np.ndarray, "example statistic"] | None:
        """The original task's counts of these examples."""
        found_NK = self.whole.statistics(self._spread(evaluation))
        return None if found_NK is None else found_NK[self._index_N]

    def of_sums(self, sums_DK: Float[np.ndarray, "draw statistic"]) -> Float[np.ndarray, " draw"]:
        """The original task's scores."""
        return self.whole.of_sums(sums_DK)

    def _numbered(self, batch: TaskBatch, index_E: Int[np.ndarray, " example"]) -> TaskBatch:
        return replace(batch, index_E=torch.from_numpy(np.asarray(index_E)))

    def _spread(self, evaluation: Evaluation) -> Evaluation:
        """The evaluation in the numbering of the original task; other entries are never read."""
        number = self.whole.num_examples
        loss, count = np.full(number, np.nan), np.ones(number, np.int64)
        kind, shape = evaluation.outcome_N.dtype, evaluation.outcome_N.shape[1:]
        outcome = np.full((number, *shape), "" if kind.hasobject else np.nan, kind)
        loss[self._index_N], count[self._index_N] = evaluation.loss_N, evaluation.count_N
        outcome[self._index_N] = evaluation.outcome_N
        return Evaluation(loss, count, outcome)
