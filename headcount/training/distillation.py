r"""Distillation: what a student learns from a teacher, and the lesson that a Trainer trains.

Layerwise: the distance between two models' hidden states, layer by layer.

$$\frac{1}{L} \sum_l \frac{1}{N} \sum_n \left\lVert \frac{t_{ln}}{\lVert t_{ln} \rVert} -
\frac{s_{ln}}{\lVert s_{ln} \rVert} \right\rVert^2$$

t and s are the teacher's and the student's hidden states of token n (of N) after layer l (of L). In
an encoder-decoder, L counts the layers of both. So the loss reflects what a layer lost with its
heads in that layer, not only at the model's end. At unit length, layers with large states do not
count more.

References: Patient Knowledge Distillation for BERT Model Compression (Sun et al., 2019), equation
7, https://arxiv.org/abs/1908.09355; for pruned models: Structured Pruning Learns Compact and
Accurate Models (Xia et al., 2022), section 3.2, https://arxiv.org/abs/2204.00408
Departure: states of all tokens except padding, not only of the first; each layer learns from the
teacher's same layer, since pruning does not change the number of layers.

Cross-entropy with soft targets: label smoothing and distillation in one pass over the logits.

$$L = \frac{1}{C} \sum_p \Big[ (1 - \alpha) \Big( -(1 - \varepsilon) \log s_p(y_p)
  - \frac{\varepsilon}{V} \sum_v \log s_p(v) \Big)
  + \alpha T^2 \, \mathrm{KL}\big(t_p^{(T)} \,\|\, s_p^{(T)}\big) \Big]$$

s and t are the student's and the teacher's softmax at position p; with (T), the logits are divided
by T first. y is the right one of V answers, and $y^\varepsilon$ is 1 - epsilon there plus
epsilon / V everywhere. The loss is in nats.

Written as separate operations, this would make some thirty tensors as large as the logits, which
took most of a small model's step on a CPU. Here loss and gradient
$\partial L / \partial z = \frac{1}{C} \big[ (1 - \alpha)(s - y^\varepsilon) + \alpha T (s^{(T)} -
t^{(T)}) \big]$ are computed for some positions at a time, while their logits are in the cache. Of
that size, only the gradient is kept.

References: Rethinking the Inception Architecture for Computer Vision (Szegedy et al., 2016),
section 7, https://arxiv.org/abs/1512.00567; Distilling the Knowledge in a Neural Network (Hinton et
al., 2015), section 2, https://arxiv.org/abs/1503.02531
Departure: there is no second derivative.

Lesson: a model, a task and its loss, as one module that a Trainer trains.

So every process calls the module that the Trainer wrapped, however the task uses the model.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn, stack
from torch.nn.functional import log_softmax, normalize
from transformers import PreTrainedModel

from headcount.core import InputError, ModelError
from headcount.models import Loaded
from headcount.tap import evaluating
from headcount.tasks import IGNORED, Answers, Task, TaskBatch
from headcount.training.config import FinetuneConfig

States = Sequence[Float[Tensor, "_ width"]]
"""Hidden states of all tokens except padding, for every layer."""

STACKS = ("encoder.self", "decoder.self")


def hidden_states(output: Mapping[str, Any], batch: TaskBatch) -> States:
    """The hidden states after every layer in a model's output, in single precision or higher.

    Raises:
        ModelError: if the output has none.
    """
    found: list[Tensor] = []
    for site in STACKS:
        name = f"{site.partition('.')[0]}_hidden_states"
        states = output.get(name)
        if states:
            found += [each[batch.is_query(site, _rows(each))] for each in states[1:]]
    if not found and (states := output.get("hidden_states")):
        found = [each[batch.is_query("encoder.self", _rows(each))] for each in states[1:]]
    if not found:
        raise ModelError(
            "Expected hidden states of every layer in the model's output to distil, got none. "
            "Set layerwise to 0."
        )
    return [*map(single, found)]


def _rows(states_RQD: Tensor) -> tuple[int, int]:
    """Number of rows and of queries."""
    return len(states_RQD), states_RQD.shape[1]


def single(tensor: Tensor) -> Tensor:
    """The tensor in single precision or higher."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def layerwise_distance(teacher: States, student: States) -> Float[Tensor, ""]:
    """Mean squared distance of the student's hidden states from the teacher's, from 0 to 4."""
    pairs = zip(teacher, student, strict=True)
    apart = [(normalize(s) - normalize(t)).pow(2).sum(-1).mean() for t, s in pairs]
    return stack(apart).mean()


CACHED = 2**18
"""Number of logits in one part on a CPU: 1 MB in single precision for each of several tensors."""
LAUNCHED = 2**26
"""Number of logits in one part on other devices, where each part costs kernel launches."""


@final
@dataclass(frozen=True)
class Targets:
    """What the loss aims at besides the right answer."""

    smoothing: float = 0.0
    """Epsilon: share of the probability spread evenly over all answers."""
    distilled: float = 0.0
    """Alpha: share of the loss that is distance from the teacher."""
    temperature: float = 1.0
    """T: temperature of both models' logits in that distance."""


def soft_cross_entropy(
    logits: Float[Tensor, "*place answer"],
    labels: Int[Tensor, "*place"],
    targets: Targets,
    teacher: Float[Tensor, "*place answer"] | None = None,
    count: Tensor | int | None = None,
) -> Float[Tensor, ""]:
    """The loss, with gradients for the logits but not for the teacher's.

    Args:
        logits: logits at every position.
        labels: the right answers; `IGNORED` at positions without one.
        targets: what else the loss aims at.
        teacher: the teacher's logits, if a share is distilled.
        count: C; if None, the number of positions with a right answer.

    Raises:
        InputError: if a share is distilled and there is no teacher.
    """
    if targets.distilled and teacher is None:
        raise InputError("Expected a teacher's logits to distil from, got none. Give them.")
    asked_P = (labels.flatten() != IGNORED).nonzero()[:, 0]
    count = len(asked_P) if count is None else count
    taught = teacher.flatten(0, -2) if teacher is not None and targets.distilled else None
    return _SoftCrossEntropy.apply(
        logits.flatten(0, -2), labels.flatten(), taught, asked_P, targets, max(1, int(count))
    )  # pyright: ignore[reportReturnType]


@final
class _SoftCrossEntropy(torch.autograd.Function):
    """Computes the gradient in the forward pass, while its inputs are at hand."""

    @staticmethod
    def forward(
        ctx: Any,
        logits_PV: Tensor,
        label_P: Tensor,
        teacher_PV: Tensor | None,
        asked_P: Tensor,
        targets: Targets,
        count: int,
    ) -> Tensor:
        gradient_PV = torch.zeros_like(logits_PV)
        total = torch.zeros((), dtype=torch.float64, device=logits_PV.device)
        for place_R in _parts(asked_P, logits_PV):
            taught_RV = None if teacher_PV is None else single(teacher_PV[place_R])
            loss, gradient_RV = _part(
                single(logits_PV[place_R]), label_P[place_R], taught_RV, targets
            )
            total += loss
            gradient_PV[place_R] = gradient_RV.div_(count).to(gradient_PV)
        ctx.save_for_backward(gradient_PV)
        return (total / count).to(torch.promote_types(logits_PV.dtype, torch.float32))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, scale: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        (gradient_PV,) = ctx.saved_tensors
        # One more pass would cost a tenth of the loss.
        scaled_PV = gradient_PV if scale == 1 else gradient_PV * scale
        return scaled_PV, None, None, None, None, None


def _parts(asked_P: Tensor, logits_PV: Tensor) -> Iterator[Tensor]:
    most = CACHED if logits_PV.device.type == "cpu" else LAUNCHED
    return iter(asked_P.split(max(1, most // logits_PV.shape[1])))


def _part(
    logits_RV: Tensor, label_R: Tensor, teacher_RV: Tensor | None, targets: Targets
) -> tuple[Tensor, Tensor]:
    """The summed loss of some positions, and its gradient."""
    epsilon, alpha = targets.smoothing, targets.distilled
    log_s_RV = log_softmax(logits_RV, -1)
    right_R1 = log_s_RV.gather(1, label_R[:, None])
    loss = -(1 - epsilon) * right_R1.double().sum()
    if epsilon:
        loss -= epsilon * log_s_RV.mean(-1).double().sum()
    gradient_RV = log_s_RV.exp().sub_(epsilon / logits_RV.shape[1])
    gradient_RV.scatter_add_(1, label_R[:, None], torch.full_like(right_R1, epsilon - 1))
    if teacher_RV is None:
        return loss, gradient_RV
    temperature = targets.temperature
    log_t_RV = log_softmax(teacher_RV / temperature, -1)
    if temperature != 1:
        log_s_RV = log_softmax(logits_RV / temperature, -1)
    t_RV = log_t_RV.exp()
    apart = (log_t_RV.sub_(log_s_RV).mul_(t_RV)).sum(-1).double().sum()
    pull_RV = log_s_RV.exp_().sub_(t_RV)
    gradient_RV.mul_(1 - alpha).add_(pull_RV, alpha=alpha * temperature)
    return (1 - alpha) * loss + alpha * temperature**2 * apart, gradient_RV


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
