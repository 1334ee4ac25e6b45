r"""Rules of `alpha_beta`, one function each: modules with their exact Jacobians, shares by sign.

Here relevance itself flows back, not a gradient to multiply with the input, since an input of 0 may
carry a part of a bias. So every operation that does not merely move numbers needs a rule, even
adding and scaling. The rules are one file, since each is a few lines around the same shares.

| operation | its inputs' relevance | scaled for each |
|---|---|---|
| linear map, norm (LayerNorm, RMSNorm) | shares (rules.py) | vector |
| attention | shares (alpha_beta_attention.py) | row and head |
| sum of two, as in a residual connection | shares: contributions are the two numbers | vector |
| sum or mean over an axis | shares | row |
| non-linearity, number times or plus a constant | the output's | |
| product of two activations | half each: both contributions are the product | |
| $u \cdot \sigma(w)$, a gate | u takes all | |

Linear maps under `alpha_beta`: $z_{ij} = w_{ji} x_i + b_j / n$ for each of the n inputs.

Without a bias, the sign of a contribution follows from its two factors, and a few matrix products
of their positive and negative parts give all shares. With a bias, contributions are computed one
by one in blocks, at many times the cost of the map.

Norms under `alpha_beta`, with their exact Jacobians, and a search for a model's own norms.

$$z_{ij} = \frac{\partial y_j}{\partial x_i} x_i + \frac{y_j(0)}{n}, \qquad \text{LayerNorm: }
z_{ij} = \frac{w_j}{s} \Big( \delta_{ij} - \frac{1 + \hat x_i \hat x_j}{n} \Big) x_i + \frac{b_j}{n}$$

Here $\hat x = (x - \bar x) / s$ and $s$ is the standard deviation. Every vector has $n^2$ numbers,
which are made in blocks. For other norms, and norms that a model implements in its own module,
autograd computes the Jacobian.

Reference: Analyzing the Source and Target Contributions to Predictions in Neural Machine Translation (Voita et al., 2021), section 2 and the authors' code, https://arxiv.org/abs/2010.10907
Departure: the query, key and value maps are separate modules here and one module in the authors'
    code; a norm's Jacobian has its epsilon everywhere. RMSNorm, products and rotated positions,
    which their model lacks, follow from the definition; for gates see rules.py.
"""  # noqa: E501

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from headcount.importance.lrp import rules as rule
from headcount.importance.lrp.rules import (
    BLOCK,
    Function,
    by_sign,
    per_contribution,
    scaled_by_row,
    scaled_by_vector,
    shared,
    shares,
)
from headcount.tap import device_of


def linear(
    function: rule.Function, input: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    """The rule for a linear map of every vector."""
    if rule.wants_relevance(weight) or rule.wants_relevance(bias):
        return function(input, weight, bias)  # refused by name
    return _linear(lambda u: function(u, weight, bias), input, weight, bias)


def matrix_product(function: rule.Function, input: Tensor, other: Tensor) -> Tensor:
    """The rule for `matmul` of an activation and a constant."""
    if other.ndim == 2 and not rule.wants_relevance(other):
        return _linear(lambda u: function(u, other), input, other.mT, None)
    return _bilinear(function, input, other)


def einsum(function: rule.Function, equation: str, *operands: Any) -> Tensor:
    """The rule for `einsum` of an activation and a constant."""
    if len(operands) != 2:
        return function(equation, *operands)  # refused by name
    return _bilinear(lambda u, w: function(equation, u, w), *operands)


def total(function: rule.Function, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The rule for a sum or a mean, as a product with weights of 1."""
    one = torch.ones((), dtype=input.dtype, device=input.device)
    return _bilinear(lambda u, w: function(u * w, *args, **kwargs), input, one)


def affine(
    function: rule.Function, input: Tensor, mat1: Tensor, mat2: Tensor, **kwargs: Any
) -> Tensor:
    """The rule for `addmm` of bias, vectors and matrix."""
    if kwargs or rule.wants_relevance(input) or rule.wants_relevance(mat2) or input.ndim != 1:
        return function(input, mat1, mat2, **kwargs)  # refused by name
    return _linear(lambda u: function(input, u, mat2), mat1, mat2.mT, input)


def _linear(
    function: Callable[[Tensor], Tensor], x: Tensor, weight_OI: Tensor, bias_O: Tensor | None
) -> Tensor:
    u = x.detach()

    def back(R: Tensor) -> list[Tensor]:
        R_NO, u_NI = R.reshape(-1, R.shape[-1]), u.reshape(-1, u.shape[-1]).to(R.dtype)
        found_NI = torch.zeros_like(u_NI)
        vectors, outputs = R_NO.any(1), R_NO.any(0)  # others have no relevance
        w_OI = weight_OI.detach()[outputs].to(R.dtype)
        b_O = None if bias_O is None else bias_O.detach()[outputs].to(R.dtype)
        found_NI[vectors] = _linear_shares(u_NI[vectors], w_OI, b_O, R_NO[vectors][:, outputs])
        return scaled_by_vector([found_NI.reshape(u.shape)], R)

    return shared(lambda: function(u), back, x)


def _linear_shares(x_NI: Tensor, w_OI: Tensor, b_O: Tensor | None, R_NO: Tensor) -> Tensor:
    """The shares: by the signs of the two factors without a bias, else one by one."""
    if b_O is None or not b_O.any():
        (x_plus, x_minus), (w_plus, w_minus) = by_sign(x_NI), by_sign(w_OI)
        z_plus_NO = x_plus @ w_plus.mT + x_minus @ w_minus.mT
        z_minus_NO = x_plus @ w_minus.mT + x_minus @ w_plus.mT
        for_plus, for_minus = per_contribution(R_NO, z_plus_NO, z_minus_NO)
        return x_plus * (for_plus @ w_plus + for_minus @ w_minus) + x_minus * (
            for_plus @ w_minus + for_minus @ w_plus
        )
    part_O1, found_NI = b_O[:, None] / w_OI.shape[1], torch.zeros_like(x_NI)
    for n, o in _blocks(len(x_NI), *w_OI.shape):
        found_NI[n] += shares(torch.addcmul(part_O1[o], x_NI[n, None], w_OI[o]), R_NO[n, o])
    return found_NI


def _blocks(num_vectors: int, num_outputs: int, num_inputs: int) -> Iterator[tuple[slice, slice]]:
    """Slices of vectors and outputs with at most `BLOCK` contributions."""
    outputs = max(1, min(num_outputs, BLOCK // num_inputs))
    vectors = max(1, BLOCK // (outputs * num_inputs))
    for n in range(0, num_vectors, vectors):
        for o in range(0, num_outputs, outputs):
            yield slice(n, n + vectors), slice(o, o + outputs)


def _bilinear(function: Callable[..., Tensor], first: Tensor, second: Tensor) -> Tensor:
    """The rule for a product of an activation and a constant that is linear in both."""
    if rule.wants_relevance(first) and rule.wants_relevance(second):
        return function(first, second)  # refused by name
    is_first = rule.wants_relevance(first)
    x, constant = (first, second) if is_first else (second, first)
    u, w = x.detach(), constant.detach()

    def value(u: Tensor, w: Tensor) -> Tensor:
        return function(u, w) if is_first else function(w, u)

    return shared(lambda: value(u, w), lambda R: [_bilinear_shares(value, u, w, R)], x)


def _bilinear_shares(
    function: Callable[[Tensor, Tensor], Tensor], u: Tensor, w: Tensor, R: Tensor
) -> Tensor:
    w_plus, w_minus = by_sign(w)
    with torch.enable_grad():
        leaf = u.clone().requires_grad_()
        u_plus, u_minus = by_sign(leaf)
        plus = function(u_plus, w_plus) + function(u_minus, w_minus)
        minus = function(u_plus, w_minus) + function(u_minus, w_plus)
        weights = per_contribution(R, plus.detach(), minus.detach())
        # The slope times the input is the sum of its contributions, each times its weight
        (slope,) = torch.autograd.grad([plus, minus], leaf, [each.to(plus) for each in weights])
    return scaled_by_row(u * slope, R)


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
    x_1I = torch.linspace(1e3, 2e3, len(weight), dtype=weight.dtype, device=device_of(module))[None]
    with torch.no_grad():
        once, twice = module(x_1I), module(2 * x_1I)
    return once.shape == x_1I.shape and bool(once.any()) and torch.allclose(once, twice, rtol=1e-2)


def through(function: rule.Function, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """A non-linearity or a constant scale: relevance passes unchanged."""
    u = input.detach().clone()  # the operation may be in place
    return shared(lambda: function(u, *args, **kwargs), lambda R: [R], input)


def passed(x: Tensor, y: Tensor) -> Tensor:
    """The output y of a module's non-linearity for input x."""
    return shared(y.detach, lambda R: [R], x)


def gate(function: rule.Function, input: Tensor, other: Tensor) -> Tensor:
    """A gate of 1: it gets the summed relevance of the gated tensor, which also keeps it."""
    return _of_both(function, input, other, 1.0)


def product(function: rule.Function, input: Any, other: Any) -> Any:
    """Half for each of two activations; all for one times a constant, unless that is 0."""
    if rule.wants_relevance(input) and rule.wants_relevance(other):
        return _of_both(function, input, other, 0.5)
    x, factor = (input, other) if rule.wants_relevance(input) else (other, input)
    constants = rule.without_relevance(input), rule.without_relevance(other)
    shape = x.shape
    return shared(
        lambda: function(*constants), lambda R: [(R * (factor != 0)).sum_to_size(shape)], x
    )


def _of_both(function: rule.Function, input: Tensor, other: Tensor, part: float) -> Tensor:
    u, w = input.detach(), other.detach()

    def back(R: Tensor) -> list[Tensor]:
        return [(R * part).sum_to_size(each.shape) for each in (u, w)]

    return shared(lambda: function(u, w), back, input, other)


def quotient(function: rule.Function, input: Any, other: Any, **kwargs: Any) -> Any:
    """The quotient of an activation and a constant."""
    if rule.wants_relevance(other):
        return function(input, other, **kwargs)  # refused by name
    return spread(function, input, other, **kwargs)


def spread(function: rule.Function, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """`expand`, or a scale that expands: relevance is summed over the copies."""
    u, shape = input.detach(), input.shape
    return shared(lambda: function(u, *args, **kwargs), lambda R: [R.sum_to_size(shape)], input)


def gated_linear_unit(function: rule.Function, input: Tensor, dim: int = -1) -> Tensor:
    """The gated linear unit: the gated half gets all relevance."""
    u, w = input.chunk(2, dim)
    return shared(lambda: u.detach() * w.detach().sigmoid(), lambda R: [R], u)


def plus(function: rule.Function, input: Any, other: Any, *, alpha: Any = 1, sign: int = 1) -> Any:
    """The sum u + w: shares of two numbers.

    A tensor with the shape of the sum counts as an input, even if its relevance is not requested; a
    tensor that is broadcast over the sum counts as a bias.
    """
    u, w = rule.without_relevance(input), rule.without_relevance(other)
    kwargs = {} if alpha == 1 else {"alpha": alpha}
    shape = torch.broadcast_shapes(*(each.shape for each in (u, w) if isinstance(each, Tensor)))
    counts = [
        rule.wants_relevance(each) or (isinstance(each, Tensor) and each.shape == shape)
        for each in (input, other)
    ]

    def back(R: Tensor) -> list[Tensor]:
        # The order of a difference does not matter: positive and negative shares are equal
        parts = _two_shares(u, w * (sign * alpha), R) if all(counts) else (R, R)
        pairs = zip(parts, (input, other), strict=True)
        return [part.sum_to_size(each.shape) for part, each in pairs if rule.wants_relevance(each)]

    inputs = [each for each in (input, other) if rule.wants_relevance(each)]
    return shared(lambda: function(u, w, **kwargs), back, *inputs)


minus = partial(plus, sign=-1)


def _two_shares(a: Tensor, b: Tensor, R: Tensor) -> list[Tensor]:
    (a_plus, a_minus), (b_plus, b_minus) = by_sign(a), by_sign(b)
    for_plus, for_minus = per_contribution(R, a_plus + b_plus, a_minus + b_minus)
    found = a_plus * for_plus + a_minus * for_minus, b_plus * for_plus + b_minus * for_minus
    return scaled_by_vector(found, R)
