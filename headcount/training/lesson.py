"""Lesson: a model, a task and how its loss is made, as one module that a Trainer trains.

So every process calls the module that the Trainer wrapped, whatever the task calls of the model.
"""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from headcount.errors import InputError, ModelError
from headcount.models.load import Loaded
from headcount.tasks import Similarity, Task, TaskBatch
from headcount.tasks.task import Losses
from headcount.training.answers import (
    Listening,
    Said,
    distance,
    embedding_distance,
    unevenness,
)
from headcount.training.layerwise import layerwise_distance
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
        if tuning.is_taught and teacher is None:
            raise InputError("a teacher was expected, since a part of the loss is distilled")
        self.model, self._task, self.tuning = model, task, tuning
        # Not in a list of modules: a teacher is neither trained nor saved.
        self._teacher = (teacher,) if teacher is not None and tuning.is_taught else ()
        hears = bool(self._teacher or tuning.label_smoothing)
        self._listening = Listening(task, tuning.layerwise > 0) if hears else None

    def forward(self, batch: TaskBatch) -> dict[str, Float[Tensor, ""]]:
        """The loss, a mean over what the task counts."""
        batch = batch.to(self.model.device)
        if self._listening is None:
            losses = self._task.losses(self.model, batch)
            return {"loss": losses.loss_E.sum() / losses.count_E.sum()}
        losses, said = self._heard(self.model, self._listening, batch)
        loss = losses.loss_E.sum() / losses.count_E.sum()
        if smoothing := self.tuning.label_smoothing:
            loss = (1 - smoothing) * loss + smoothing * unevenness(said.answers)
        for teacher in self._teacher:
            with torch.no_grad():
                _, taught = self._heard(teacher, self._listening, batch)
            loss = self._distilled(loss, taught, said)
        return {"loss": loss}

    def _heard(
        self, model: PreTrainedModel, listening: Listening, batch: TaskBatch
    ) -> tuple[Losses, Said]:
        with listening.to(model):
            losses = self._task.losses(model, batch)
        return losses, listening.said(batch)

    def _distilled(self, loss: Float[Tensor, ""], taught: Said, said: Said) -> Float[Tensor, ""]:
        tuning = self.tuning
        _refuse_other_shapes(taught, said)
        if tuning.distilled:
            if isinstance(self._task, Similarity):
                apart = embedding_distance(taught.answers, said.answers)
            else:
                apart = distance(taught.answers, said.answers, tuning.temperature)
            loss = (1 - tuning.distilled) * loss + tuning.distilled * apart
        if tuning.layerwise:
            loss = loss + tuning.layerwise * layerwise_distance(taught.states, said.states)
        return loss


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
    if tuning.is_taught or tuning.label_smoothing:
        Listening(task)


def refuse_teacher(loaded: Loaded, teacher: Loaded) -> None:
    """See that two models read the same tokens.

    Raises:
        InputError: if they have not the same vocabulary.
    """
    tokenizers = [each.tokenizer for each in (loaded, teacher)]
    mine, its = [None if each is None else each.get_vocab() for each in tokenizers]
    if mine != its:
        raise InputError(
            f"a teacher with the vocabulary of {loaded.name} was expected, since both read the "
            f"same tokens; {teacher.name} has another: name a teacher of the same family"
        )


def _refuse_other_shapes(taught: Said, said: Said) -> None:
    """Nothing is as far from a vector as from one of another width."""
    for what, pair in {
        "answers": ([taught.answers], [said.answers]),
        "hidden states of every layer": (taught.states, said.states),
    }.items():
        its, mine = [[tuple(each.shape) for each in states] for states in pair]
        if its != mine:
            raise ModelError(
                f"{what} of the same shape as the teacher's were expected, since they are to be "
                f"distilled; the teacher has {its}, the model {mine}: take another teacher"
            )
