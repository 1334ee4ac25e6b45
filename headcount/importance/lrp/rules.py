r"""Rules of layer-wise relevance propagation, one function each, written for input times gradient.

Relevance of a tensor is $R_u = u \, G_u$, where $G$ is the gradient under the rules. So a linear map
needs no rule: $G_u = W^\top G_v$ gives $R_u = \sum_v \frac{u w_{uv}}{v} R_v$, the z-rule. Every other
operation is rewritten as a linear one with constant factors and the same value:

| operation | is rewritten as | so that |
|---|---|---|
| $f(u)$ with $f(0) = 0$ | $u \cdot [f(u) / u]$ | relevance passes through |
| $u \cdot \sigma(w)$, a gate | $u \cdot [\sigma(w)]$ | the gated input takes all |
| $(u - \bar u) / \mathrm{std}(u)$ | $(u - \bar u) \cdot [1 / \mathrm{std}(u)]$ | a norm is a scale |
| $u \cdot w$, shares of all kinds | $s_u \, u [w] + s_w \, [u] w$, $s_u + s_w = 1$ | both take a share |

Brackets are constants for the backward pass.

Reference: Visualizing and Understanding Neural Machine Translation (Ding et al., 2017), section 3, https://aclanthology.org/P17-1106
Reference: AttnLRP (Achtibat et al., 2024), section 3, https://arxiv.org/abs/2402.05602
Reference: Explaining Recurrent Neural Network Predictions in Sentiment Analysis (Arras et al., 2017), section 2.2 (gates), https://arxiv.org/abs/1706.07206
Departure: all rule sets use Arras' rule for gates, since a sigmoid is not 0 at 0 and relevance
    can't pass through it.
"""  # noqa: E501

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

Function = Callable[..., Any]
Rule = Callable[..., Any]
"""A rule is called with the operation and with the operation's arguments."""

STEADINESS = 1e-4
"""Epsilon of `by_size`: a share is at most 1/2 + 1/(4 sqrt(STEADINESS)) = 25.5."""


def wants_relevance(value: object) -> bool:
    """Whether relevance may flow to a value; parameters and inputs are constants."""
    return isinstance(value, Tensor) and value.requires_grad


def without_relevance(value: Any) -> Any:
    """The same value as a constant."""
    return value.detach() if isinstance(value, Tensor) else value


def constant(function: Function, *args: Any, **kwargs: Any) -> Any:
    """[f(u)]: a norm's root or standard deviation, attention weights under `voita2019`."""
    named = {name: without_relevance(value) for name, value in kwargs.items()}
    return function(*[without_relevance(value) for value in args], **named)


def through(function: Function, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The product u [f(u) / u], for a non-linearity that is 0 at 0."""
    return passed(input, function(input.detach().clone(), *args, **kwargs))  # it may be in place


def passed(x: Tensor, y: Tensor) -> Tensor:
    """The output y of a non-linearity for input x; relevance passes unchanged."""
    u = x.detach()
    return x * torch.where(u == 0, 0, y.detach() / u)


def power(function: Function, x: Any, exponent: Any, *args: Any, **kwargs: Any) -> Any:
    """A negative power, which is the scale of a norm; propagation.py checks other powers."""
    is_scale = isinstance(exponent, int | float) and exponent < 0
    rule = constant if is_scale else plain
    return rule(function, x, exponent, *args, **kwargs)


def plain(function: Function, *args: Any, **kwargs: Any) -> Any:
    """The operation itself, with its true derivative."""
    return function(*args, **kwargs)


def layer_norm(
    function: Function,
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *cudnn: Any,
) -> Tensor:
    """(u - mean) [1 / std] weight + bias."""
    shape = list(normalized_shape)
    scale = torch.native_layer_norm(input.detach(), shape, None, None, eps)[2].to(input.dtype)
    centred = input - input.mean(tuple(range(-len(shape), 0)), keepdim=True)
    y = centred * (scale if weight is None else scale * weight)
    return y if bias is None else y + bias


def rms_norm(
    function: Function,
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """The product u [1 / root mean square] weight."""
    u = input.detach().to(torch.promote_types(input.dtype, torch.float32))
    axes = tuple(range(-len(normalized_shape), 0))
    eps = torch.finfo(input.dtype).eps if eps is None else eps
    scale = (u.square().mean(axes, keepdim=True) + eps).rsqrt().to(input.dtype)
    return input * (scale if weight is None else scale * weight)


def gated_linear_unit(function: Function, input: Tensor, dim: int = -1) -> Tensor:
    """The product u [sigmoid(w)] of the halves u and w."""
    u, w = input.chunk(2, dim)
    return u * w.detach().sigmoid()


def quotient(function: Function, input: Any, other: Any, *args: Any, **kwargs: Any) -> Any:
    """The quotient u / [w]: if both are activations, the divisor is the size of a norm."""
    divisor = without_relevance(other) if wants_relevance(input) else other
    return function(input, divisor, *args, **kwargs)


def by_half(function: Function, input: Any, other: Any) -> Any:
    """A product of two activations; each takes half: s = 1/2 (`attnlrp`)."""
    if not (wants_relevance(input) and wants_relevance(other)):
        return function(input, other)
    return (function(input, other.detach()) + function(input.detach(), other)) / 2


def by_size(function: Function, input: Any, other: Any) -> Any:
    r"""A product of two activations; each takes s_u = u / (u + w), stabilised (`voita2019`).

    With $t = (u + w) / (u - w)$, $s_u = 1/2 + 1/(2t)$. $t / (t^2 + \epsilon)$ replaces $1/t$ and
    differs only where u and w cancel: there both take half. Shares always add up to 1.
    """
    if not (wants_relevance(input) and wants_relevance(other)):
        return function(input, other)
    a, b = input.detach(), other.detach()
    sum_, difference = a + b, a - b
    size = sum_.square() + STEADINESS * difference.square()
    lean = torch.where(size == 0, 0, sum_ * difference / size) / 2
    return input * (b * (0.5 + lean)) + other * (a * (0.5 - lean))


def activations(model: PreTrainedModel) -> list[nn.Module]:
    """Modules that are one non-linearity with value 0 at 0, whatever operations they consist of.

    Either transformers' own, or those of a model's code (Bloom) that do it to every number alone.
    """
    probe = torch.linspace(-2, 2, 6, dtype=model.dtype, device=model.device).view(2, 3)
    with torch.no_grad():
        return [module for module in model.modules() if _is_activation(module, probe)]


def _is_activation(module: nn.Module, probe_23: Tensor) -> bool:
    place = type(module).__module__
    if place == "transformers.activations":
        return not module(torch.zeros_like(probe_23)).any()
    state = (*module.children(), *module.parameters(), *module.buffers())
    if not place.startswith("transformers.models.") or state:
        return False
    try:
        y, alone, at_zero = map(module, (probe_23, probe_23[:1, :1], torch.zeros_like(probe_23)))
    except Exception:  # a module of another kind, with other inputs
        return False
    is_map = isinstance(y, Tensor) and y.shape == probe_23.shape and not torch.equal(y, probe_23)
    return is_map and torch.allclose(alone, y[:1, :1]) and not at_zero.any()
