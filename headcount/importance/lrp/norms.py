r"""Norms under `alpha_beta`, with their exact Jacobians, and a search for a model's own norms.

$$z_{ij} = \frac{\partial y_j}{\partial x_i} x_i + \frac{y_j(0)}{n}, \qquad \text{LayerNorm: }
z_{ij} = \frac{w_j}{s} \Big( \delta_{ij} - \frac{1 + \hat x_i \hat x_j}{n} \Big) x_i + \frac{b_j}{n}$$

Here $\hat x = (x - \bar x) / s$ and $s$ is the standard deviation. Every vector has $n^2$ numbers,
which are made in blocks. For other norms, and norms that a model implements in its own module,
autograd computes the Jacobian.
"""  # noqa: E501

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from headcount.importance.lrp.rules import Function
from headcount.importance.lrp.shares import BLOCK, scaled_by_vector, shared, shares


def layer_norm(
    function: Function,
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *cudnn: Any,
) -> Tensor:
    """The rule for LayerNorm over the last axis."""

    def contributions(x_NI: Tensor) -> Tensor:
        w_I = torch.ones_like(x_NI[0]) if weight is None else weight.detach().to(x_NI)
        b_I = torch.zeros_like(w_I) if bias is None else bias.detach().to(x_NI)
        return _layer_norm_contributions(x_NI, w_I, b_I, eps)

    def whole(u: Tensor) -> Tensor:
        return function(u, normalized_shape, weight, bias, eps, *cudnn)

    if len(normalized_shape) > 1:
        return whole(input)  # refused by name
    return _norm(contributions, input, whole(input.detach()))


def rms_norm(
    function: Function, input: Tensor, normalized_shape: Any, *args: Any, **kwargs: Any
) -> Tensor:
    """The rule for RMSNorm over the last axis."""

    def whole(u: Tensor) -> Tensor:
        return function(u, normalized_shape, *args, **kwargs)

    if len(normalized_shape) > 1:
        return whole(input)  # refused by name
    return norm(whole, input, whole(input.detach()))


def norm(function: Callable[[Tensor], Tensor], x: Tensor, y: Tensor) -> Tensor:
    """The output y of any norm of vectors along the last axis for input x."""
    return _norm(partial(_contributions, function), x, y)


def _norm(contributions: Callable[[Tensor], Tensor], x: Tensor, y: Tensor) -> Tensor:
    u = x.detach()

    def back(R: Tensor) -> list[Tensor]:
        R_NI, u_NI = R.reshape(-1, R.shape[-1]), u.reshape(-1, u.shape[-1])
        found_NI = torch.zeros_like(R_NI)
        for block_N in R_NI.any(1).nonzero()[:, 0].split(max(1, BLOCK // u.shape[-1] ** 2)):
            found_NI[block_N] = shares(contributions(u_NI[block_N]).to(R.dtype), R_NI[block_N])
        return scaled_by_vector([found_NI.reshape(R.shape)], R)

    return shared(y.detach, back, x)


def _layer_norm_contributions(
    x_NI: Float[Tensor, "vector input"],
    weight_I: Float[Tensor, " input"],
    bias_I: Float[Tensor, " input"],
    eps: float,
) -> Float[Tensor, "vector output input"]:
    """Contributions: three products of an output's and an input's number, and the diagonal."""
    num_inputs = x_NI.shape[1]
    centred_NI = x_NI - x_NI.mean(1, keepdim=True)
    scale_N1 = (centred_NI.square().mean(1, keepdim=True) + eps).rsqrt()
    unit_NI, slope_NI = centred_NI * scale_N1, weight_I * scale_N1
    of_output_NO3 = torch.stack([slope_NI, slope_NI * unit_NI, bias_I.expand_as(x_NI)], 2)
    of_input_NI3 = torch.stack([-x_NI, -x_NI * unit_NI, torch.ones_like(x_NI)], 2)
    z_NOI = of_output_NO3 @ of_input_NI3.mT / num_inputs
    z_NOI.diagonal(dim1=1, dim2=2).add_(slope_NI * x_NI)
    return z_NOI


def _contributions(
    function: Callable[[Tensor], Tensor], x_NI: Float[Tensor, "vector input"]
) -> Float[Tensor, "vector output input"]:
    """Contributions by autograd, from one copy of a vector for each output."""
    with torch.enable_grad():
        copies_NOI = x_NI[:, None].repeat(1, x_NI.shape[1], 1).requires_grad_()
        outputs_NO = function(copies_NOI).diagonal(dim1=1, dim2=2)
        (jacobian_NOI,) = torch.autograd.grad(outputs_NO.sum(), copies_NOI)
        at_zero_O = function(x_NI.new_zeros(1, x_NI.shape[1])).detach()[0]
    return jacobian_NOI * x_NI[:, None] + at_zero_O[:, None] / x_NI.shape[1]


def norms(model: PreTrainedModel) -> list[nn.Module]:
    """Modules that are one norm: they have only weights, and doubling the input changes nothing."""
    return [module for module in model.modules() if _is_norm(module)]


def _is_norm(module: nn.Module) -> bool:
    weights, inputs = list(module.parameters()), inspect.signature(module.forward).parameters
    # Norms of torch call functions that have a rule
    is_stock = type(module).__module__.startswith("torch.")
    if is_stock or len(inputs) != 1 or len(weights) != 1 or weights[0].ndim != 1:
        return False
    (weight,) = weights
    x_1I = torch.linspace(1e3, 2e3, len(weight), dtype=weight.dtype, device=weight.device)[None]
    with torch.no_grad():
        once, twice = module(x_1I), module(2 * x_1I)
    return once.shape == x_1I.shape and bool(once.any()) and torch.allclose(once, twice, rtol=1e-2)
