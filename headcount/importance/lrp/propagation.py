r"""Layer-wise relevance propagation for any model, by rules around its forward pass.

$$R_u = u \, \frac{\partial v}{\partial u}\Big|_{\text{rules}}, \qquad \sum_u R_u = v$$

Inside the context, every operation that has a rule (rules.py) is replaced by a linear one of the
same value as the model runs. One ordinary backward pass then gives relevance. Relevance is
conserved: it adds up to the logit, except for the part that biases take. Under `alpha_beta`,
relevance itself flows back in place of the gradient, starts at 1 and adds up to 1 (rules.py).

After the forward pass, every step of autograd's graph between the starts and the leaves is checked.
A step that is not known to be linear raises an error that names it (steps.py), so relevance is
never silently a plain gradient. Under `alpha_beta`, a step must be one of the rules or only move
numbers.

LRP is covered by patents of its inventors; ask them before commercial use. All code here is our own.

Reference: On Pixel-Wise Explanations for Non-Linear Classifier Decisions (Bach et al., 2015), https://doi.org/10.1371/journal.pone.0130140
Reference: Analyzing Multi-Head Self-Attention (Voita et al., 2019), section 4 and appendix A, https://arxiv.org/abs/1905.09418
Departure: `voita2019` treats attention weights as constants, so relevance flows through values
    only. Under `attnlrp` the softmax has its true derivative (the paper's Taylor rule), which does
    not conserve the sum: as the paper says, it loses what a bias would take. `alpha_beta` follows
    the code of a later paper by the same first author, see alpha_beta.py.

Rule sets of layer-wise relevance propagation: the rule of each operation.
"""  # noqa: E501

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from headcount.core import InputError, ModelError
from headcount.importance.gradients import frozen, slopes
from headcount.importance.lrp import alpha_beta
from headcount.importance.lrp import rules as rule
from headcount.importance.lrp.alpha_beta_attention import attention
from headcount.importance.lrp.steps import (
    check_rules,
    is_gate,
    is_sigmoid,
    linear_steps,
    moving_steps,
)
from headcount.models import check_weights_read
from headcount.tap import FunctionListener, Listener, TorchCalls, evaluating, intercepted

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
RELP = {**COMMON, "softmax": rule.constant, "mul": rule.by_half}
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
    "relp": RuleSet(RELP),
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


def unfused(rules: str) -> Listener | None:
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


@final
class Lrp(TorchCalls):
    """A context that records a model's forward pass under the rules of a rule set.

    Inside, the model's parameters are frozen and it is in evaluation mode; both are restored.

    Args:
        model: Any transformers model.
        rules: Name of the rule set; None keeps the scales of norms, and has no other rule.
        gates: Leaves of 1 that heads' outputs are multiplied with.
    """

    def __init__(
        self, model: PreTrainedModel, rules: str | None, gates: Sequence[Tensor] = ()
    ) -> None:
        super().__init__()
        self.model, self.name, self.gates = model, rules or "attribution", gates
        self._rules = FROZEN_NORMS if rules is None else rule_set(rules)
        self._tied: dict[nn.Module, rule.Rule] = {}
        self._given: dict[nn.Module, list[Tensor]] = {}
        self._stack = ExitStack()

    def __enter__(self) -> "Lrp":
        if self._rules.direct:  # positive and negative weights have rules of their own
            check_weights_read(self.model, f"relevance by {self.name}")
        with ExitStack() as stack:
            for context in (evaluating(self.model), frozen(self.model), torch.enable_grad()):
                stack.enter_context(context)
            self._tied = self._rules.modules(self.model)
            stack.enter_context(intercepted(self._tied, self._before, self._after))
            super().__enter__()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._stack.close()

    def call(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """Replace an operation by its rule, if it has one and relevance passes through it."""
        name = getattr(function, "__name__", "")
        name = SPELLINGS.get(name, name)
        found = self._rules.operations.get(name.removesuffix("_"))
        if found is None or not any(map(rule.wants_relevance, (*args, *kwargs.values()))):
            return function(*args, **kwargs)
        if name.endswith("_"):
            return self._in_place(found, name, args, kwargs)
        if name == "mul":
            return self._product(found, function, *args, **kwargs)
        return found(function, *args, **kwargs)

    def _in_place(
        self, found: rule.Rule, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Tensor:
        """Apply the rule to a copy of the first argument, and write the value back into it."""
        name = name.removesuffix("_")
        function = getattr(torch, name, None) or getattr(nn.functional, name)
        rest = (function, args[0].clone(), *args[1:])
        product = name == "mul"
        value = self._product(found, *rest) if product else found(*rest, **kwargs)
        return args[0].copy_(value)

    def _product(self, found: rule.Rule, function: rule.Function, input: Any, other: Any) -> Any:
        """The product, where gates of 1 are no activations and a sigmoid takes no relevance."""
        if rule.wants_relevance(input) and rule.wants_relevance(other):
            if is_gate(input, self.gates) or is_gate(other, self.gates):
                found = self._rules.gate
            elif is_sigmoid(other):
                other = other.detach()
            elif is_sigmoid(input):
                input = input.detach()
        return found(function, input, other)

    def _before(self, module: nn.Module, given: Tensor) -> Tensor:
        self._given.setdefault(module, []).append(given)
        return given.detach()

    def _after(self, module: nn.Module, output: Tensor) -> Tensor:
        return self._tied[module](self._given[module].pop(), output)

    def check(self, starts: Tensor) -> None:
        """Raise an error for numbers that are not finite, and for operations without a rule.

        Raises:
            ModelError: If there are any; the message names the operation.
        """
        if not starts.isfinite().all():
            raise ModelError(
                "Expected finite logits to start relevance at, but some of the model's are not "
                "finite. Check it with `headcount doctor`."
            )
        linear = linear_steps(self.gates, self._rules.allowed)
        check_rules(starts, moving_steps() if self._rules.direct else linear, self.name)

    def relevance(
        self, start: Tensor, leaves: Sequence[Tensor], again: bool = False
    ) -> list[Tensor]:
        """Elementwise relevance of leaves for a start made inside the context.

        Args:
            start: Logit, or sum of logits, that passed `check`.
            leaves: Gates or hidden states.
            again: Whether another start of the same forward pass will follow.

        Raises:
            ModelError: If a leaf gets no gradient.
        """
        found = slopes(start, leaves, again)
        if self._rules.direct:
            return list(found)
        return [leaf.detach() * each for leaf, each in zip(leaves, found, strict=True)]
