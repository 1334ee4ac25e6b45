"""Rule sets of layer-wise relevance propagation: the rule of each operation."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import final

from torch import nn
from transformers import PreTrainedModel

from headcount.core import InputError
from headcount.importance.lrp import alpha_beta
from headcount.importance.lrp import rules as rule
from headcount.importance.lrp.attention import attention
from headcount.tap import FunctionListener, Listener

COMMON: Mapping[str, rule.Rule] = {
    "layer_norm": rule.layer_norm,
    "rms_norm": rule.rms_norm,
    "rsqrt": rule.constant,
    "sqrt": rule.constant,
    "std": rule.constant,
    "norm": rule.constant,
    "vector_norm": rule.constant,
    "linalg_vector_norm": rule.constant,
    "pow": rule.power,
    "div": rule.quotient,
    "true_divide": rule.quotient,
    "relu": rule.through,
    "relu6": rule.through,
    "leaky_relu": rule.through,
    "elu": rule.through,
    "selu": rule.through,
    "gelu": rule.through,
    "silu": rule.through,
    "mish": rule.through,
    "hardswish": rule.through,
    "tanh": rule.through,
    "softsign": rule.through,
    "glu": rule.gated_linear_unit,
}
"""Rule of each operation, for all rule sets; other operations run unchanged and must be linear."""

VOITA2019 = {**COMMON, "softmax": rule.constant, "mul": rule.by_size}
ATTNLRP = {
    **COMMON,
    "softmax": rule.plain,
    "mul": rule.by_half,
    "matmul": rule.by_half,
    "bmm": rule.by_half,
}
ALPHA_BETA: Mapping[str, rule.Rule] = {
    "linear": alpha_beta.linear,
    "matmul": alpha_beta.matrix_product,
    "mm": alpha_beta.matrix_product,
    "bmm": alpha_beta.matrix_product,
    "addmm": alpha_beta.affine,
    "einsum": alpha_beta.einsum,
    "scaled_dot_product_attention": attention,
    "layer_norm": alpha_beta.layer_norm,
    "rms_norm": alpha_beta.rms_norm,
    "add": alpha_beta.plus,
    "sub": alpha_beta.minus,
    "rsub": alpha_beta.minus,
    "mul": alpha_beta.product,
    "div": alpha_beta.quotient,
    "true_divide": alpha_beta.quotient,
    "sum": alpha_beta.total,
    "mean": alpha_beta.total,
    "expand": alpha_beta.spread,
    "neg": alpha_beta.through,
    **{name: alpha_beta.through for name, each in COMMON.items() if each is rule.through},
    "glu": alpha_beta.gated_linear_unit,
}


@final
@dataclass(frozen=True)
class RuleSet:
    """The rules by which relevance flows."""

    operations: Mapping[str, rule.Rule]
    """Rule of each operation; other operations run unchanged."""
    gate: rule.Rule = rule.plain
    """Rule for a product with a gate of 1."""
    direct: bool = False
    """Whether relevance itself flows back, instead of a gradient to multiply with a tensor."""
    allowed: frozenset[str] = frozenset()
    """Names of non-linear steps that use their true derivative."""
    has_activations: bool = True
    """Whether relevance passes through modules that are one non-linearity."""

    def modules(self, model: PreTrainedModel) -> dict[nn.Module, rule.Rule]:
        """Modules that are one operation, with the rule that ties their output to their input."""
        if not self.has_activations:
            return {}
        passed = alpha_beta.passed if self.direct else rule.passed
        found: dict[nn.Module, rule.Rule] = dict.fromkeys(rule.activations(model), passed)
        if self.direct:
            found |= {
                each: partial(alpha_beta.norm, each.forward) for each in alpha_beta.norms(model)
            }
        return found


RULES: Mapping[str, RuleSet] = {
    "voita2019": RuleSet(VOITA2019),
    "attnlrp": RuleSet(ATTNLRP, allowed=frozenset({"Softmax"})),
    "alpha_beta": RuleSet(ALPHA_BETA, gate=alpha_beta.gate, direct=True),
}

FROZEN_NORMS = RuleSet(
    {
        name: each
        for name, each in COMMON.items()
        if each not in (rule.through, rule.gated_linear_unit)
    },
    has_activations=False,
)
"""Norms whose scales are constants, and no rule for a non-linearity."""


def rule_set(name: str) -> RuleSet:
    """The rule set of a name.

    Raises:
        InputError: If there is none.
    """
    if name not in RULES:
        raise InputError(f"Expected a rule set out of {', '.join(RULES)}, got {name!r}.")
    return RULES[name]


def listener(rules: str) -> Listener | None:
    """The listener for a tap; rules for single steps need attention that is not fused."""
    return None if rule_set(rules).direct else FunctionListener(lambda block: None)


SPELLINGS = {
    "__imul__": "mul_",
    "__rmul__": "mul",
    "__mul__": "mul",
    "multiply": "mul",
    "__truediv__": "div",
    "__itruediv__": "div_",
    "divide": "div",
    "__matmul__": "matmul",
    "__pow__": "pow",
    "__ipow__": "pow_",
    "square": "square",
    "__add__": "add",
    "__radd__": "add",
    "__iadd__": "add_",
    "__sub__": "sub",
    "__isub__": "sub_",
    "__rsub__": "rsub",
    "subtract": "sub",
    "__neg__": "neg",
    "negative": "neg",
    "expand_as": "expand",
    "broadcast_to": "expand",
}
"""Operation by its other names in torch."""
