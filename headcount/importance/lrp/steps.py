"""The steps of autograd's graph that relevance passes: which are linear, and which have no rule.

`propagation` checks them after a forward pass, since an operation without a rule would silently
turn relevance into a plain gradient.
"""

import re
from collections.abc import Callable, Sequence

from torch import Tensor
from torch.autograd.graph import Node

from headcount.core import UnsuitedError

MOVING = frozenset(
    "Alias AsStrided Cat Clone ConstantPadNd CopySlices Copy Diagonal Flip Gather Index IndexCopy "
    "IndexPut IndexSelect MaskedFill MaskedScatter Max Permute ReshapeAlias Roll Scatter Select "
    "SelectScatter Slice SliceScatter Sort Split SplitWithSizes Squeeze Stack Swapaxes T ToCopy "
    "Topk Transpose Tril Triu Unbind UnsafeSplit UnsafeView Unsqueeze View Where Amax "
    "AccumulateGrad".split()
)
"""Names in autograd of steps that move or choose numbers."""

LINEAR = MOVING | frozenset(
    "Add Addbmm Cumsum Embedding Expand IndexAdd Mean Neg Repeat Rsub ScatterAdd Sub Sum Unfold "
    "ViewAsComplex ViewAsReal ScatterReduce AvgPool2D UpsampleBilinear2D UpsampleBicubic2D "
    "UpsampleNearest2D AdaptiveAvgPool2D".split()
)
"""Names of steps that move, choose, add or average numbers."""

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
"""Positions of the factors of products, which are linear if all factors but one are constants."""

SIGMOIDS = frozenset({"Sigmoid", "Erf"})
"""Non-linearities that count as a constant in a product."""

RESHAPED = frozenset("Unsqueeze Index View Expand Alias Slice ToCopy".split())
"""Steps that a gate may take before it is multiplied with a head's output."""


HasRule = Callable[[Node, str], bool]
"""Predicate: whether relevance may pass through a step of this name."""


def linear_steps(gates: Sequence[Tensor], allowed: frozenset[str]) -> HasRule:
    """Accepts linear steps, for rules that replace every operation by a linear one.

    Args:
        gates: Leaves of 1; a product with one of them is no product of two activations.
        allowed: Names of steps for which the rule set uses the true derivative.
    """
    return lambda node, name: name in allowed or _is_linear(node, name, gates)


def moving_steps() -> HasRule:
    """Accepts steps that move numbers, for rules that are their own steps."""
    return lambda node, name: name == "Shared" or name in MOVING


def check_rules(starts: Tensor, has_rule: HasRule, rules: str) -> None:
    """Raise an error if relevance would pass through a step without a rule.

    Args:
        starts: Numbers at which relevance begins.
        has_rule: Predicate for the steps that may be taken.
        rules: Name of the rule set, for the message.

    Raises:
        ModelError: If an operation has no rule; the message names it.
    """
    seen, waiting = set(), [starts.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        name = _operation(node)
        if not has_rule(node, name):
            raise UnsuitedError(
                f"Expected operations with a rule for relevance, but the model uses {_said(name)} "
                f"on the way from its inputs to the logit, for which {rules} has no rule. Use "
                "another score for this model, such as gradient or ablation."
            )
        waiting += [before for before, _ in node.next_functions]


def is_sigmoid(factor: Tensor) -> bool:
    """Whether a factor is a sigmoid or an error function, maybe reshaped, scaled or shifted."""
    node = factor.grad_fn
    while node is not None and _operation(node) not in SIGMOIDS:
        before = [each for each, _ in node.next_functions if each is not None]
        linear = len(before) == 1 and _is_linear(node, _operation(node), ())
        node = before[0] if linear else None
    return node is not None


def is_gate(factor: Tensor, gates: Sequence[Tensor]) -> bool:
    """Whether a factor is one of the gates, maybe reshaped, expanded over rows or cast."""
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
    """The name of a node's operation: `Mul` for `MulBackward0`."""
    return re.sub(r"Backward[s]?\d*$", "", node.name().rpartition("::")[2])


def _said(name: str) -> str:
    """The name of an operation in torch's spelling."""
    spelt = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().removeprefix("native_")
    if name == "Div":
        return "div (by an activation)"
    return f"{spelt} (of two activations)" if name in FACTORS else spelt
