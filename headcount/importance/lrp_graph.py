"""The proof that rules were missed nowhere: what was recorded for the backward pass is linear.

Every step between the starts and the places where relevance is asked for is looked at, in
autograd's own record, after the forward pass. A step that is not known to be linear is refused by
name, so that no relevance is ever a silent gradient.
"""

import re
from collections.abc import Sequence

from torch import Tensor
from torch.autograd.graph import Node

from headcount.errors import ModelError

LINEAR = frozenset(
    "Add Addbmm Alias AsStrided Cat Clone ConstantPadNd CopySlices Copy Cumsum Diagonal Embedding "
    "Expand Flip Gather Index IndexAdd IndexCopy IndexPut IndexSelect MaskedFill MaskedScatter Max "
    "Mean Neg Permute Repeat ReshapeAlias Roll Rsub Scatter ScatterAdd Select SelectScatter Slice "
    "SliceScatter Sort Split SplitWithSizes Squeeze Stack Sub Sum Swapaxes T ToCopy Topk Transpose "
    "Tril Triu Unbind Unfold UnsafeSplit UnsafeView Unsqueeze View ViewAsComplex ViewAsReal Where "
    "ScatterReduce Amax AvgPool2D UpsampleBilinear2D UpsampleBicubic2D UpsampleNearest2D "
    "AdaptiveAvgPool2D AccumulateGrad".split()
)
"""Steps that move, choose, add or average, by the names that autograd gives them."""

FACTORS = {
    "Mul": (0, 1),
    "Mm": (0, 1),
    "Mv": (0, 1),
    "Dot": (0, 1),
    "Bmm": (0, 1),
    "Linear": (0, 1),
    "Addmm": (1, 2),
    "Addmv": (1, 2),
    "Baddbmm": (1, 2),
    "Convolution": (0, 1),
    "MkldnnConvolution": (0, 1),
}
"""Products, with their factors' places: linear where all factors but one are constants."""

SIGMOIDS = frozenset({"Sigmoid", "Erf"})
"""Non-linearities that, times something, are taken for a constant."""

RESHAPED = frozenset("Unsqueeze Index View Expand Alias Slice ToCopy".split())
"""What may happen to a gate before it meets a head's output."""


def refuse_not_linear(
    starts: Tensor, gates: Sequence[Tensor], rules: str, allowed: frozenset[str]
) -> None:
    """Look at every step that relevance would take.

    Args:
        starts: where relevance begins.
        gates: leaves that are 1, so that a product with one is no product of two activations.
        rules: name of the rule set, for the message.
        allowed: steps that the rule set takes with their true derivative.

    Raises:
        ModelError: names the operation that has no rule.
    """
    seen, waiting = set(), [starts.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        name = _operation(node)
        if name not in allowed and not _is_linear(node, name, gates):
            raise ModelError(
                f"an operation with a rule for relevance was expected, but the model uses "
                f"{_said(name)} on the way from its inputs to the logit, for which {rules} has "
                "no rule; use another score for this model, such as gradient or ablation"
            )
        waiting += [before for before, _ in node.next_functions]


def is_sigmoid(factor: Tensor) -> bool:
    """Whether it is a sigmoid or an error function, reshaped, scaled or shifted."""
    node = factor.grad_fn
    while node is not None and _operation(node) not in SIGMOIDS:
        before = [each for each, _ in node.next_functions if each is not None]
        linear = len(before) == 1 and _is_linear(node, _operation(node), ())
        node = before[0] if linear else None
    return node is not None


def is_gate(factor: Tensor, gates: Sequence[Tensor]) -> bool:
    """Whether it is one of the gates, reshaped, spread over rows or cast."""
    return any(factor is gate for gate in gates) or _is_view_of(factor.grad_fn, gates)


def _is_view_of(node: Node | None, gates: Sequence[Tensor]) -> bool:
    while node is not None and _operation(node) in RESHAPED:
        node = node.next_functions[0][0]
    variable = getattr(node, "variable", None)
    return variable is not None and any(variable is gate for gate in gates)


def _is_linear(node: Node, name: str, gates: Sequence[Tensor]) -> bool:
    before = [each for each, _ in node.next_functions]
    if name == "Div":
        return not any(before[1:])
    if name not in FACTORS:
        return name in LINEAR
    factors = [before[place] for place in FACTORS[name] if place < len(before)]
    active = [each for each in factors if each is not None]
    return len(active) <= 1 or any(_is_view_of(each, gates) for each in active)


def _operation(node: Node) -> str:
    """The name of what was done: `Mul` for `MulBackward0`."""
    return re.sub(r"Backward[s]?\d*$", "", node.name().rpartition("::")[2])


def _said(name: str) -> str:
    """The name of an operation in torch's spelling."""
    spelt = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().removeprefix("native_")
    if name == "Div":
        return "div (by an activation)"
    return f"{spelt} (of two activations)" if name in FACTORS else spelt
