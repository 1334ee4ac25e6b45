r"""Rules of `alpha_beta`, one function each: modules with their exact Jacobians, shares by sign.

Here relevance itself flows back, not a gradient to multiply with the input, since an input of 0 may
carry a part of a bias. So every operation that does not merely move numbers needs a rule, even
adding and scaling.

| operation | its inputs' relevance | scaled for each |
|---|---|---|
| linear map, norm (LayerNorm, RMSNorm) | shares (shares.py) | vector |
| attention | shares (attention.py) | row and head |
| sum of two, as in a residual connection | shares: contributions are the two numbers | vector |
| sum or mean over an axis | shares | row |
| non-linearity, number times or plus a constant | the output's | |
| product of two activations | half each: both contributions are the product | |
| $u \cdot \sigma(w)$, a gate | u takes all | |

Reference: Analyzing the Source and Target Contributions to Predictions in Neural Machine Translation (Voita et al., 2021), section 2 and the authors' code, https://arxiv.org/abs/2010.10907
Departure: the query, key and value maps are separate modules here and one module in the authors'
    code; a norm's Jacobian has its epsilon everywhere. RMSNorm, products and rotated positions,
    which their model lacks, follow from the definition; for gates see rules.py.
"""  # noqa: E501

from functools import partial
from typing import Any

import torch
from torch import Tensor

from headcount.importance.lrp import rules as rule
from headcount.importance.lrp.shares import by_sign, per_contribution, scaled_by_vector, shared


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
