"""Lesson: a model, a task and how its loss is made, as one module that a Trainer trains.

So every process calls the module that the Trainer wrapped, whatever the task calls of the model.
"""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from headcount.errors import InputError
from headcount.tasks import Similarity, Task, TaskBatch
from headcount.training.answers import Listening, distance, embedding_distance, unevenness
from headcount.training.tuning import Tuning


@final
class Lesson(nn.Module):
    """The training loss of a batch.

    Args:
        model: what learns.
        task: gives batches and losses.
        tuning: how the loss is made.
        teacher: what the model's answers are compared with.

    Raises:
        InputError: where the loss can't be made so.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        task: Task,
        tuning: Tuning,
        teacher: PreTrainedModel | None = None,
    ) -> None:
        super().__init__()
        refuse_lesson(task, tuning)
        if tuning.distilled and teacher is None:
            raise InputError("a teacher was expected, since a share of the loss is distilled")
        self.model, self._task, self.tuning = model, task, tuning
        # Not in a list of modules: a teacher is neither trained nor saved.
        self._teacher = (teacher,) if teacher is not None and tuning.distilled else ()
        hears = bool(self._teacher or tuning.label_smoothing)
        self._listening = Listening(task) if hears else None

    def forward(self, batch: TaskBatch) -> dict[str, Float[Tensor, ""]]:
        """The loss, a mean over what the task counts."""
        batch = batch.to(self.model.device)
        if self._listening is None:
            losses = self._task.losses(self.model, batch)
            return {"loss": losses.loss_E.sum() / losses.count_E.sum()}
        with self._listening.to(self.model):
            losses = self._task.losses(self.model, batch)
        loss, said = losses.loss_E.sum() / losses.count_E.sum(), self._listening.answers(batch)
        if smoothing := self.tuning.label_smoothing:
            loss = (1 - smoothing) * loss + smoothing * unevenness(said)
        for teacher in self._teacher:
            with torch.no_grad(), self._listening.to(teacher):
                self._task.losses(teacher, batch)
            taught = self._listening.answers(batch)
            if isinstance(self._task, Similarity):
                apart = embedding_distance(taught, said)
            else:
                apart = distance(taught, said, self.tuning.temperature)
            loss = (1 - self.tuning.distilled) * loss + self.tuning.distilled * apart
        return {"loss": loss}


def refuse_lesson(task: Task, tuning: Tuning) -> None:
    """See that the loss of a task can be made so.

    Raises:
        InputError: if it can't.
    """
    if tuning.label_smoothing and isinstance(task, Similarity):
        raise InputError("similarity has no answers to smooth: set label_smoothing to 0")
    if tuning.temperature != 1 and (isinstance(task, Similarity) or not tuning.distilled):
        raise InputError(
            "a temperature is of logits that are distilled, which similarity has none of: leave "
            "temperature out, or set distilled too"
        )
    if tuning.distilled or tuning.label_smoothing:
        Listening(task)
