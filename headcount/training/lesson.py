"""Lesson: a model, a task and how its loss is made, as one module that a Trainer trains.

So every process calls the module that the Trainer wrapped, whatever the task calls of the model.
"""

from collections.abc import Sequence
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from headcount.errors import InputError, ModelError
from headcount.models.load import Loaded
from headcount.models.selfcheck import evaluating
from headcount.tasks import Answers, Task, TaskBatch
from headcount.training.embeddings import embedding_distance
from headcount.training.layerwise import hidden_states, layerwise_distance
from headcount.training.soft_targets import Targets, soft_cross_entropy
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

    def forward(self, batch: TaskBatch) -> dict[str, Float[Tensor, ""]]:
        """The loss, a mean over what the task counts."""
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
            _refuse_other_shapes("hidden states of every layer", its, mine)
            loss = loss + weight * layerwise_distance(its, mine)
        return {"loss": loss}

    def _output(self, model: PreTrainedModel, batch: TaskBatch) -> Any:
        more = {"output_hidden_states": True} if self.tuning.layerwise else {}
        return self._task.output(model, batch, **more)

    def _loss(self, output: Any, taught: Any, batch: TaskBatch) -> Float[Tensor, ""]:
        """What is made of the models' last outputs."""
        tuning, said = self.tuning, self._task.answers(output, batch)
        its = None
        if tuning.distilled:
            its = self._task.answers(taught, batch).values
            _refuse_other_shapes("answers", [its], [said.values])
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


def refuse_lesson(task: Task, tuning: Tuning) -> None:
    """See that the loss of a task can be made so.

    Raises:
        InputError: if it can't.
    """
    embeds = task.distils == "embeddings"
    if tuning.label_smoothing and embeds:
        raise InputError(f"{task.name} has no answers to smooth: set label_smoothing to 0")
    if tuning.temperature != 1 and (embeds or not tuning.distilled):
        raise InputError(
            "a temperature is of logits that are distilled, and none are here: leave temperature "
            "out, or, for any task but similarity, set distilled too"
        )
    if (tuning.is_taught or tuning.label_smoothing) and task.distils is None:
        raise InputError(
            "a task whose answers can be distilled or smoothed was expected; the task "
            f"{task.name} has none: set distilled, layerwise and label_smoothing to 0"
        )


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


def _refuse_other_shapes(what: str, its: Sequence[Tensor], mine: Sequence[Tensor]) -> None:
    """Nothing is as far from a vector as from one of another width."""
    shapes = [[tuple(each.shape) for each in states] for states in (its, mine)]
    if shapes[0] != shapes[1]:
        raise ModelError(
            f"{what} of the same shape as the teacher's were expected, since they are to be "
            f"distilled; the teacher has {shapes[0]}, the model {shapes[1]}: take another teacher"
        )
