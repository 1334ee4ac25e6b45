r"""Cross-entropy with soft targets: label smoothing and distillation in one pass over the logits.

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
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import log_softmax

from headcount.core import InputError
from headcount.tasks import IGNORED
from headcount.training.optim.layerwise import single

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
