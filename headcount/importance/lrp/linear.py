r"""Linear maps under `alpha_beta`: $z_{ij} = w_{ji} x_i + b_j / n$ for each of the n inputs.

Without a bias, the sign of a contribution follows from its two factors, and a few matrix products
of their positive and negative parts give all shares. With a bias, contributions are computed one
by one in blocks, at many times the cost of the map.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from headcount.importance.lrp import rules as rule
from headcount.importance.lrp.shares import (
    BLOCK,
    by_sign,
    per_contribution,
    scaled_by_row,
    scaled_by_vector,
    shared,
    shares,
)


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
