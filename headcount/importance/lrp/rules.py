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

Shares of relevance by sign: the one rule that all of `alpha_beta` consists of.

An output $y_j$ of a module is a sum of contributions of its inputs, each from the Jacobian plus an
equal part of the bias, $z_{ij} = \partial y_j / \partial x_i \cdot x_i + y_j(0) / n$. Then

$$R_i = \sum_j \Big( \alpha \frac{z_{ij}^+}{\sum_{i'} z_{i'j}^+ + \epsilon}
    + \beta \frac{z_{ij}^-}{\sum_{i'} z_{i'j}^- - \epsilon} \Big) R_j,
\qquad \alpha = \beta = \tfrac12, \; \epsilon = 10^{-5}$$

where $z^+$ and $z^-$ are the positive and negative parts of z. An output without contributions of
one sign loses half of its relevance, so the R of a module's inputs are scaled until their absolute
values add up to those of its outputs. No share is negative and relevance starts at 1, so relevance
is never negative and its sum stays 1, with or without biases.

Reference: Visualizing and Understanding Neural Machine Translation (Ding et al., 2017), section 3, https://aclanthology.org/P17-1106
Reference: AttnLRP (Achtibat et al., 2024), section 3, https://arxiv.org/abs/2402.05602
Reference: Explaining Recurrent Neural Network Predictions in Sentiment Analysis (Arras et al., 2017), section 2.2 (gates), https://arxiv.org/abs/1706.07206
Departure: all rule sets use Arras' rule for gates, since a sigmoid is not 0 at 0 and relevance
    can't pass through it.

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
from torch import Tensor, nn
from transformers import PreTrainedModel

from headcount.tap import input_device

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
    """A negative power, which is the scale of a norm; steps.py checks other powers."""
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
    probe = torch.linspace(-2, 2, 6, dtype=model.dtype, device=input_device(model)).view(2, 3)
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
