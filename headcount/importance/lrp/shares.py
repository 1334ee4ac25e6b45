r"""Shares of relevance by sign: the one rule that all of `alpha_beta` consists of.

An output $y_j$ of a module is a sum of contributions of its inputs, each from the Jacobian plus an
equal part of the bias, $z_{ij} = \partial y_j / \partial x_i \cdot x_i + y_j(0) / n$. Then

$$R_i = \sum_j \Big( \alpha \frac{z_{ij}^+}{\sum_{i'} z_{i'j}^+ + \epsilon}
    + \beta \frac{z_{ij}^-}{\sum_{i'} z_{i'j}^- - \epsilon} \Big) R_j,
\qquad \alpha = \beta = \tfrac12, \; \epsilon = 10^{-5}$$

where $z^+$ and $z^-$ are the positive and negative parts of z. An output without contributions of
one sign loses half of its relevance, so the R of a module's inputs are scaled until their absolute
values add up to those of its outputs. No share is negative and relevance starts at 1, so relevance
is never negative and its sum stays 1, with or without biases.

Reference: On Pixel-Wise Explanations for Non-Linear Classifier Decisions (Bach et al., 2015), equation 60, https://doi.org/10.1371/journal.pone.0130140
Reference: Analyzing the Source and Target Contributions to Predictions in Neural Machine Translation (Voita et al., 2021), section 2, https://arxiv.org/abs/2010.10907
Departure: the authors' code also adds epsilon in the scaling, so every module loses a little of the
    sum, and more where relevance is small; here nothing is lost. It also scales where a tensor gets
    relevance from several uses, which changes nothing, since nothing cancels there.
"""  # noqa: E501

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

ALPHA, BETA = 0.5, 0.5
EPSILON = 1e-5
BLOCK = 2**17
"""Number of contributions held at a time, chosen to fit into a core's cache."""

Back = Callable[[Tensor], Sequence[Tensor]]
"""Function from the relevance of an operation's output to that of each of its inputs."""


class Shared(torch.autograd.Function):
    """An unchanged operation, with relevance in place of the gradient on the way back."""

    @staticmethod
    def forward(ctx: Any, function: Callable[[], Tensor], back: Back, *inputs: Tensor) -> Tensor:
        """Run the operation, and store `back` for later."""
        ctx.back, ctx.dtypes = back, [each.dtype for each in inputs]
        return function()

    @staticmethod
    def backward(ctx: Any, *relevance: Tensor) -> Any:
        """The relevance of the inputs."""
        (R,) = relevance
        wide = R.to(torch.promote_types(R.dtype, torch.float32))
        parts = zip(ctx.back(wide), ctx.dtypes, strict=True)
        return None, None, *(part.to(dtype) for part, dtype in parts)


def shared(function: Callable[[], Tensor], back: Back, *inputs: Tensor) -> Tensor:
    """The result of a function of inputs; `back` distributes its relevance."""
    made: Any = Shared.apply(function, back, *inputs)
    return made


def by_sign(x: Tensor) -> tuple[Tensor, Tensor]:
    """The positive and the negative part of a tensor."""
    return x.clamp_min(0), x.clamp_max(0)


def per_contribution(R: Tensor, plus: Tensor, minus: Tensor) -> tuple[Tensor, Tensor]:
    """Relevance for one unit of positive and of negative contribution to each output."""
    return ALPHA * R / (plus + EPSILON), BETA * R / (minus - EPSILON)


def shares(
    z_NOI: Float[Tensor, "vector output input"], R_NO: Float[Tensor, "vector output"]
) -> Float[Tensor, "vector input"]:
    """The rule, applied to all contributions, which are overwritten."""
    plus_NOI, minus_NOI = z_NOI.clamp_min(0), z_NOI.clamp_max_(0)
    weights = per_contribution(R_NO, plus_NOI.sum(-1), minus_NOI.sum(-1))
    for_plus_N1O, for_minus_N1O = (each[:, None] for each in weights)
    return (for_plus_N1O @ plus_NOI + for_minus_N1O @ minus_NOI)[:, 0]


def scaled_by_vector(parts: Sequence[Tensor], R: Tensor) -> list[Tensor]:
    """Parts whose absolute values add up to those of R, for each vector along the last axis."""
    return _scaled(parts, R, (-1,))


def scaled_by_head(parts: Sequence[Tensor], R: Tensor) -> list[Tensor]:
    """Parts whose absolute values add up to those of R, for each row and head."""
    return _scaled(parts, R, (-2, -1))


def scaled_by_row(part: Tensor, R: Tensor) -> Tensor:
    """The same for each index of the first axis, or for the total where the first axes differ."""
    if R.ndim == 0 or len(part) != len(R):
        return scaled_by_row(part[None], R[None])[0]
    sizes = (each.reshape(len(R), -1).abs().sum(1) for each in (R, part))
    return part * _ratio(*sizes).reshape(-1, *[1] * (part.ndim - 1))


def _scaled(parts: Sequence[Tensor], R: Tensor, axes: tuple[int, ...]) -> list[Tensor]:
    size = torch.stack([part.abs().sum(axes, keepdim=True) for part in parts]).sum(0)
    factor = _ratio(R.abs().sum(axes, keepdim=True), size)
    return [part * factor for part in parts]


def _ratio(wanted: Tensor, size: Tensor) -> Tensor:
    return torch.where(size == 0, 0, wanted / size)
