"""Lesson: a model, a task and its loss, as one module that a Trainer trains.

So every process calls the module that the Trainer wrapped, however the task uses the model.
"""

from collections.abc import Sequence
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from headcount.core import InputError, ModelError
from headcount.models import Loaded
from headcount.tap import evaluating
from headcount.tasks import Answers, Task, TaskBatch
from headcount.training.finetuning.config import FinetuneConfig
from headcount.training.optim.layerwise import hidden_states, layerwise_distance
from headcount.training.optim.soft_targets import Targets, soft_cross_entropy


def embedding_distance(
    teacher_SW: Float[Tensor, "sentence width"], student_SW: Float[Tensor, "sentence width"]
) -> Float[Tensor, ""]:
    """Mean squared distance over sentences of student and teacher embeddings, from 0 to 4."""
    return (student_SW - teacher_SW).pow(2).sum(-1).mean()


@final
class DistillationLoss(nn.Module):
    """The training loss of a batch.

    Args:
        model: the model to train.
        task: the task, which gives batches and losses.
        tuning: settings of the loss.
        teacher: the model whose answers are the target of distillation.

    Raises:
        InputError: if the task can't have such a loss.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        task: Task,
        tuning: FinetuneConfig,
        teacher: PreTrainedModel | None = None,
    ) -> None:
        super().__init__()
        check_distillation(task, tuning)
        if tuning.is_taught and teacher is None:
            raise InputError("Expected a teacher to distil from, got none. Give one.")
        self.model, self._task, self.tuning = model, task, tuning
        # A tuple hides the teacher from torch, so that it is neither trained nor saved.
        self._teacher = (teacher,) if teacher is not None and tuning.is_taught else ()

    def forward(self, batch: TaskBatch) -> dict[str, Float[Tensor, ""]]:
        """The loss: a mean over the units that the task counts."""
        batch = batch.to(self.model.device)
        if not (self._teacher or self.tuning.label_smoothing):
            losses = self._task.losses(self.model, batch)
            return {"loss": losses.loss_E.sum() / losses.count_E.sum()}
        taught: Any = None
        for teacher in self._teacher:
            with evaluating(teacher), torch.no_grad():
                taught = self._output(teacher, batch)
        output = self._output(self.model, batch)
        loss = self._loss(output, taught, batch)
        if weight := self.tuning.layerwise:
            its, mine = hidden_states(taught, batch), hidden_states(output, batch)
            _check_same_shapes("hidden states of every layer", its, mine)
            loss = loss + weight * layerwise_distance(its, mine)
        return {"loss": loss}

    def _output(self, model: PreTrainedModel, batch: TaskBatch) -> Any:
        more = {"output_hidden_states": True} if self.tuning.layerwise else {}
        return self._task.output(model, batch, **more)

    def _loss(self, output: Any, taught: Any, batch: TaskBatch) -> Float[Tensor, ""]:
        """The loss from the models' final outputs, without the layerwise part."""
        tuning, said = self.tuning, self._task.answers(output, batch)
        its = None
        if tuning.distilled:
            its = self._task.answers(taught, batch).values
            _check_same_shapes("answers", [its], [said.values])
        if said.labels is None:
            return self._embedded(output, its, said, batch)
        targets = Targets(tuning.label_smoothing, tuning.distilled, tuning.temperature)
        return soft_cross_entropy(said.values, said.labels, targets, its)

    def _embedded(
        self, output: Any, its: Tensor | None, said: Answers, batch: TaskBatch
    ) -> Float[Tensor, ""]:
        losses = self._task.losses_of(output, batch)
        loss = losses.loss_E.sum() / losses.count_E.sum()
        if its is None:
            return loss
        share = self.tuning.distilled
        return (1 - share) * loss + share * embedding_distance(its, said.values)


def check_distillation(task: Task, tuning: FinetuneConfig) -> None:
    """Check that a task can have the loss that a tuning asks for.

    Raises:
        InputError: if it can't.
    """
    embeds = task.distils == "embeddings"
    if tuning.label_smoothing and embeds:
        raise InputError(f"The task {task.name} has no answers to smooth. Set label_smoothing=0.")
    if tuning.temperature != 1 and (embeds or not tuning.distilled):
        raise InputError(
            "Expected logits to distil with the temperature, got none. Leave temperature out, or, "
            "for any task except similarity, set distilled too."
        )
    if (tuning.is_taught or tuning.label_smoothing) and task.distils is None:
        raise InputError(
            "Expected a task whose answers can be distilled or smoothed, got the task "
            f"{task.name}. Set distilled, layerwise and label_smoothing to 0."
        )


def check_teacher(loaded: Loaded, teacher: Loaded) -> None:
    """Check that two models read the same tokens.

    Raises:
        InputError: if their vocabularies differ.
    """
    tokenizers = [each.tokenizer for each in (loaded, teacher)]
    mine, its = [None if each is None else each.get_vocab() for each in tokenizers]
    if mine != its:
        raise InputError(
            f"Expected a teacher with the vocabulary of {loaded.name}, since both read the same "
            f"tokens, got {teacher.name} with another. Name a teacher of the same family."
        )


def _check_same_shapes(what: str, its: Sequence[Tensor], mine: Sequence[Tensor]) -> None:
    """Check that shapes agree, since distances between different widths are undefined."""
    shapes = [[tuple(each.shape) for each in states] for states in (its, mine)]
    if shapes[0] != shapes[1]:
        raise ModelError(
            f"Expected {what} of the same shape as the teacher's to distil, got {shapes[1]} from "
            f"the model and {shapes[0]} from the teacher. Choose another teacher."
        )
