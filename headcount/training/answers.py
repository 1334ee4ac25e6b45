r"""Answers: what a model says wherever a task counts it, and how far two models' answers are apart.

$$L = (1 - \alpha) L_{task} + \alpha \frac{1}{P} \sum_p T^2\,
\mathrm{KL}\big(\mathrm{softmax}(t_p / T) \,\|\, \mathrm{softmax}(s_p / T)\big)$$

t and s are the teacher's and the student's logits of what is counted: predicted tokens, or classes
of texts. Similarity has no logits: there an answer is a sentence's embedding at unit length, and
the distance of S sentences is

$$\frac{1}{S} \sum_i \lVert t_i - s_i \rVert^2 = \frac{2}{S} \sum_i (1 - \cos(t_i, s_i))$$

which says more of a teacher than its cosines of the pairs do.

Reference: Distilling the Knowledge in a Neural Network (Hinton et al., 2015), section 2,
https://arxiv.org/abs/1503.02531; embeddings: Making Monolingual Sentence Embeddings Multilingual
using Knowledge Distillation (Reimers and Gurevych, 2020), section 3, https://arxiv.org/abs/2004.09813
Departure: embeddings have unit length, since only their angles are ever compared.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import kl_div, log_softmax, normalize
from transformers import PreTrainedModel

from headcount.errors import InputError
from headcount.tasks import Similarity, Task, TaskBatch
from headcount.tasks.likelihood import IGNORED
from headcount.training.layerwise import States, hidden_states, single

Answers = Float[Tensor, "counted answer"] | Float[Tensor, "sentence width"]
"""Logits of everything that is counted, or embeddings of sentences."""


@final
@dataclass(frozen=True, eq=False)
class Said:
    """What was heard of a model on one batch."""

    answers: Answers
    states: States
    """Of every layer; none where nobody listened inside."""


@final
class Listening:
    """Keeps what a model says in the forwards of a task's losses.

    Args:
        task: whose losses are taken.
        inside: hear the hidden states of every layer too.
    """

    def __init__(self, task: Task, inside: bool = False) -> None:
        if task.name not in _ANSWERS:
            raise InputError(
                f"answers of one of the tasks {', '.join(_ANSWERS)} can be distilled or smoothed; "
                f"came {task.name}"
            )
        self._task, self._inside = task, inside
        self._output: Any = None

    @contextmanager
    def to(self, model: PreTrainedModel) -> Iterator[None]:
        """Hear the forwards of a block."""
        spoken = model.base_model if isinstance(self._task, Similarity) else model
        handles = [spoken.register_forward_hook(self._hear)]
        if self._inside:
            handles.append(spoken.register_forward_pre_hook(_ask_inside, with_kwargs=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _hear(self, module: Any, args: Any, output: Any) -> None:
        self._output = output

    def said(self, batch: TaskBatch) -> Said:
        """What was said to a batch, in single precision at least.

        Raises:
            ModelError: if the model does not tell its hidden states.
        """
        output, self._output = self._output, None  # it is large
        answers = _ANSWERS[self._task.name](self._task, output, batch)
        states = hidden_states(output, batch) if self._inside else []
        return Said(single(answers), states)


def _ask_inside(module: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return args, kwargs | {"output_hidden_states": True}


def distance(
    teacher: Float[Tensor, "counted answer"],
    student: Float[Tensor, "counted answer"],
    temperature: int | float = 1.0,
) -> Float[Tensor, ""]:
    """How far the student's logits are from the teacher's, in nats for each counted."""
    teacher_PV, student_PV = (log_softmax(each / temperature, -1) for each in (teacher, student))
    apart = kl_div(student_PV, teacher_PV, reduction="batchmean", log_target=True)
    return temperature**2 * apart


def embedding_distance(
    teacher_SW: Float[Tensor, "sentence width"], student_SW: Float[Tensor, "sentence width"]
) -> Float[Tensor, ""]:
    """How far the student's embeddings are from the teacher's: from 0 to 4, a mean of sentences."""
    return (student_SW - teacher_SW).pow(2).sum(-1).mean()


def unevenness(answers: Answers) -> Float[Tensor, ""]:
    """Mean negative log-probability of all answers alike: what label smoothing adds, in nats."""
    return -log_softmax(answers, -1).mean()


def _labelled(task: Any, output: Any, batch: TaskBatch) -> Tensor:
    return output.logits[batch.labels["labels"] != IGNORED]


def _next(task: Any, output: Any, batch: TaskBatch) -> Tensor:
    return output.logits[:, :-1][batch.inputs["attention_mask"][:, 1:].bool()]


def _classes(task: Any, output: Any, batch: TaskBatch) -> Tensor:
    return output.logits


def _embeddings(task: Any, output: Any, batch: TaskBatch) -> Tensor:
    return normalize(task.pooled(output.last_hidden_state, batch.inputs["attention_mask"]))


_ANSWERS: dict[str, Callable[[Any, Any, TaskBatch], Tensor]] = {
    "translation": _labelled,
    "masked-lm": _labelled,
    "causal-lm": _next,
    "classification": _classes,
    "similarity": _embeddings,
}
"""By the task's name."""
