"""The proof that rules were missed nowhere: what was recorded for the backward pass is linear.

Every step between the starts and the places where relevance is asked for is looked at, in
autograd's own record, after the forward pass. A step that is not known to be linear is refused by
name, so that no relevance is ever a silent gradient. Under `alpha_beta`, whose rules carry
relevance itself, a step must be one of them or move numbers only.
"""

import re
from collections.abc import Callable, Sequence

from torch import Tensor
from torch.autograd.graph import Node

from headcount.errors import UnsuitedError

MOVING = frozenset(
    "Alias AsStrided Cat Clone ConstantPadNd CopySlices Copy Diagonal Flip Gather Index IndexCopy "
    "IndexPut IndexSelect MaskedFill MaskedScatter Max Permute ReshapeAlias Roll Scatter Select "
    "SelectScatter Slice SliceScatter Sort Split SplitWithSizes Squeeze Stack Swapaxes T ToCopy "
    "Topk Transpose Tril Triu Unbind UnsafeSplit UnsafeView Unsqueeze View Where Amax "
    "AccumulateGrad".split()
)
"""Steps that move or choose numbers, by the names that autograd gives them."""

LINEAR = MOVING | frozenset(
    "Add Addbmm Cumsum Embedding Expand IndexAdd Mean Neg Repeat Rsub ScatterAdd Sub Sum Unfold "
    "ViewAsComplex ViewAsReal ScatterReduce AvgPool2D UpsampleBilinear2D UpsampleBicubic2D "
    "UpsampleNearest2D AdaptiveAvgPool2D".split()
)
"""Those, and steps that add or average."""

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


HasRule = Callable[[Node, str], bool]
"""Whether relevance may take a step of this name."""


def linear_steps(gates: Sequence[Tensor], allowed: frozenset[str]) -> HasRule:
    """Steps that are linear, for rules that write every operation as a linear one.

    Args:
        gates: leaves that are 1, so that a product with one is no product of two activations.
        allowed: steps that the rule set takes with their true derivative.
    """
    return lambda node, name: name in allowed or _is_linear(node, name, gates)


def moving_steps() -> HasRule:
    """Steps that move numbers, for rules that are steps of their own."""
    return lambda node, name: name == "Shared" or name in MOVING


def refuse_without_rule(starts: Tensor, has_rule: HasRule, rules: str) -> None:
    """Look at every step that relevance would take.

    Args:
        starts: where relevance begins.
        has_rule: says which steps may be taken.
        rules: name of the rule set, for the message.

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
        if not has_rule(node, name):
            raise UnsuitedError(
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
