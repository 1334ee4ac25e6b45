r"""Cross-entropy with soft targets: label smoothing and distillation in one pass over the logits.

$$L = \frac{1}{C} \sum_p \Big[ (1 - \alpha) \Big( -(1 - \varepsilon) \log s_p(y_p)
  - \frac{\varepsilon}{V} \sum_v \log s_p(v) \Big)
  + \alpha T^2 \, \mathrm{KL}\big(t_p^{(T)} \,\|\, s_p^{(T)}\big) \Big]$$

s and t are the student's and the teacher's softmax at place p, under (T) of logits divided by T; y
is the right one of V answers, and $y^\varepsilon$ has 1 - epsilon there and epsilon / V
everywhere. In nats.

Written with one operation after the other, this makes some thirty tensors as large as the logits,
which took most of a small model's step on a CPU. Here loss and gradient
$\partial L / \partial z = \frac{1}{C} \big[ (1 - \alpha)(s - y^\varepsilon) + \alpha T (s^{(T)} -
t^{(T)}) \big]$ are made of some places at a time, while their logits are in the cache, and nothing
of that size is kept but the gradient.

References: Rethinking the Inception Architecture for Computer Vision (Szegedy et al., 2016),
section 7, https://arxiv.org/abs/1512.00567; Distilling the Knowledge in a Neural Network (Hinton et
al., 2015), section 2, https://arxiv.org/abs/1503.02531
Departure: has no second derivative.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import log_softmax

from headcount.errors import InputError
from headcount.tasks.likelihood import IGNORED
from headcount.training.layerwise import single

CACHED = 2**18
"""Logits of one part on a CPU: a megabyte in single precision, of which some tensors are needed."""
LAUNCHED = 2**26
"""Elsewhere, where every part costs the launch of its kernels."""


@final
@dataclass(frozen=True)
class Targets:
    """What is aimed at beside the right answer."""

    smoothing: float = 0.0
    """Share of the probability that all answers alike have: epsilon."""
    distilled: float = 0.0
    """Share of the loss that is distance from the teacher: alpha."""
    temperature: float = 1.0
    """Of both models' logits in that distance: T."""


def soft_cross_entropy(
    logits: Float[Tensor, "*place answer"],
    labels: Int[Tensor, "*place"],
    targets: Targets,
    teacher: Float[Tensor, "*place answer"] | None = None,
    count: Tensor | int | None = None,
) -> Float[Tensor, ""]:
    """The loss; gradients flow into the logits and not into the teacher's.

    Args:
        logits: of every place.
        labels: the right answer; `IGNORED` where nothing is asked.
        targets: what else is aimed at.
        teacher: its logits, where a share is distilled.
        count: C; the number of places where something is asked if None.

    Raises:
        InputError: where a share is to be distilled and there is no teacher.
    """
    if targets.distilled and teacher is None:
        raise InputError("a teacher's logits were expected, since a part of the loss is distilled")
    asked_P = (labels.flatten() != IGNORED).nonzero()[:, 0]
    count = len(asked_P) if count is None else count
    taught = teacher.flatten(0, -2) if teacher is not None and targets.distilled else None
    return _SoftCrossEntropy.apply(
        logits.flatten(0, -2), labels.flatten(), taught, asked_P, targets, max(1, int(count))
    )  # pyright: ignore[reportReturnType]


@final
class _SoftCrossEntropy(torch.autograd.Function):
    """Makes the gradient on the way, since what it is made of is there once."""

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
        # One more pass would be as dear as a tenth of the loss.
        scaled_PV = gradient_PV if scale == 1 else gradient_PV * scale
        return scaled_PV, None, None, None, None, None


def _parts(asked_P: Tensor, logits_PV: Tensor) -> Iterator[Tensor]:
    most = CACHED if logits_PV.device.type == "cpu" else LAUNCHED
    return iter(asked_P.split(max(1, most // logits_PV.shape[1])))


def _part(
    logits_RV: Tensor, label_R: Tensor, teacher_RV: Tensor | None, targets: Targets
) -> tuple[Tensor, Tensor]:
    """Summed loss of some places, and its gradient."""
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
