r"""Answers: what a model says wherever a task counts it, and how far two models' answers are apart.

$$L = (1 - \alpha) L_{task} + \alpha \frac{1}{P} \sum_p T^2\,
\mathrm{KL}\big(\mathrm{softmax}(t_p / T) \,\|\, \mathrm{softmax}(s_p / T)\big)$$

t and s are the teacher's and the student's logits of what is counted: predicted tokens, or classes
of texts. Similarity has no logits: there it is the squared distance of the cosines.

Reference: Distilling the Knowledge in a Neural Network (Hinton et al., 2015), section 2,
https://arxiv.org/abs/1503.02531
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import kl_div, log_softmax, mse_loss
from transformers import PreTrainedModel

from headcount.errors import InputError
from headcount.tasks import Similarity, Task, TaskBatch
from headcount.tasks.likelihood import IGNORED

Answers = Float[Tensor, "counted answer"] | Float[Tensor, " counted"]
"""Logits of everything that is counted, or numbers that are compared as they are."""


@final
class Listening:
    """Keeps the answers that a model gives in the forwards of a task's losses."""

    def __init__(self, task: Task) -> None:
        if task.name not in _ANSWERS:
            raise InputError(
                f"answers of one of the tasks {', '.join(_ANSWERS)} can be distilled or smoothed; "
                f"came {task.name}"
            )
        self._task, self._output = task, None

    @contextmanager
    def to(self, model: PreTrainedModel) -> Iterator[None]:
        """Hear the forwards of a block."""
        spoken = model.base_model if isinstance(self._task, Similarity) else model
        handle = spoken.register_forward_hook(self._hear)
        try:
            yield
        finally:
            handle.remove()

    def _hear(self, module: Any, args: Any, output: Any) -> None:
        self._output = output

    def answers(self, batch: TaskBatch) -> Answers:
        """What was said to a batch, in single precision at least."""
        said = _ANSWERS[self._task.name](self._task, self._output, batch)
        self._output = None
        return said.to(torch.promote_types(said.dtype, torch.float32))


def distance(
    teacher: Answers, student: Answers, temperature: int | float = 1.0
) -> Float[Tensor, ""]:
    """How far the student is from the teacher, in nats or squared cosines, for each counted."""
    if teacher.ndim == 1:
        return mse_loss(student, teacher)
    teacher_PV, student_PV = (log_softmax(each / temperature, -1) for each in (teacher, student))
    apart = kl_div(student_PV, teacher_PV, reduction="batchmean", log_target=True)
    return temperature**2 * apart


def unevenness(answers: Answers) -> Float[Tensor, ""]:
    """Mean negative log-probability of all answers alike: what label smoothing adds, in nats."""
    return -log_softmax(answers, -1).mean()


def _labelled(task: Any, output: Any, batch: TaskBatch) -> Tensor:
    return output.logits[batch.labels["labels"] != IGNORED]


def _next(task: Any, output: Any, batch: TaskBatch) -> Tensor:
    return output.logits[:, :-1][batch.inputs["attention_mask"][:, 1:].bool()]


def _classes(task: Any, output: Any, batch: TaskBatch) -> Tensor:
    return output.logits


def _cosines(task: Any, output: Any, batch: TaskBatch) -> Tensor:
    return task.cosines(output.last_hidden_state, batch)


_ANSWERS: dict[str, Callable[[Any, Any, TaskBatch], Tensor]] = {
    "translation": _labelled,
    "masked-lm": _labelled,
    "causal-lm": _next,
    "classification": _classes,
    "similarity": _cosines,
}
"""By the task's name."""
