r"""Layer-wise relevance propagation for any model: rules around its forward pass, no line per model.

$$R_u = u \, \frac{\partial v}{\partial u}\Big|_{\text{rules}}, \qquad \sum_u R_u = v$$

Inside the context every operation that has a rule (lrp_rules.py) is replaced by a linear one of the
same value, as the model runs; one ordinary backward pass then gives relevance. Relevance is kept:
what came in adds up to the logit, but for what biases took. LRP is covered by patents of its
inventors; who uses it commercially should ask them. All code here is our own.

Reference: On Pixel-Wise Explanations for Non-Linear Classifier Decisions (Bach et al., 2015), https://doi.org/10.1371/journal.pone.0130140
Reference: Analyzing Multi-Head Self-Attention (Voita et al., 2019), section 4 and appendix A, https://arxiv.org/abs/1905.09418
Departure: `voita2019` takes attention weights for constants, so that relevance flows through values
    only. Under `attnlrp` the softmax has its true derivative (the paper's Taylor rule), which keeps
    no sum: it gives up, as the paper says, what a bias would take.
"""  # noqa: E501

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Literal, final

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel

from headcount.errors import InputError, ModelError
from headcount.importance import lrp_rules as rule
from headcount.importance.lrp_graph import is_gate, is_sigmoid, refuse_not_linear
from headcount.importance.scores import frozen
from headcount.models.selfcheck import evaluating

Rules = Literal["voita2019", "attnlrp"]

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
"""Operation to rule, for all rule sets; what is not named runs as it is and must be linear."""

VOITA2019 = {**COMMON, "softmax": rule.constant, "mul": rule.by_size}
ATTNLRP = {
    **COMMON,
    "softmax": rule.plain,
    "mul": rule.by_half,
    "matmul": rule.by_half,
    "bmm": rule.by_half,
}
RULES: Mapping[str, Mapping[str, rule.Rule]] = {"voita2019": VOITA2019, "attnlrp": ATTNLRP}

ALLOWED = {"voita2019": frozenset[str](), "attnlrp": frozenset({"Softmax"})}
"""Steps that are not linear and yet have their true derivative."""

SPELLINGS = {"__imul__": "mul_", "__rmul__": "mul", "__mul__": "mul", "multiply": "mul",
             "__truediv__": "div", "__itruediv__": "div_", "divide": "div", "__matmul__": "matmul",
             "__pow__": "pow", "__ipow__": "pow_", "square": "square"}  # fmt: skip
"""Other names of operations."""


@final
class Lrp(TorchFunctionMode):
    """A context in which a model's forward pass is recorded under the rules of a rule set.

    The model's parameters are constants and it is in evaluation mode; both are given back.

    Args:
        model: any transformers model.
        rules: name of the rule set.
        gates: leaves of 1 that heads' outputs are multiplied with.
    """

    def __init__(self, model: PreTrainedModel, rules: str, gates: Sequence[Tensor] = ()) -> None:
        super().__init__()
        if rules not in RULES:
            raise InputError(f"a rule set out of {', '.join(RULES)} was expected; came {rules!r}")
        self.model, self.name, self.gates = model, rules, gates
        self._rules = RULES[rules]
        self._given: dict[nn.Module, list[Tensor]] = {}
        self._stack = ExitStack()

    def __enter__(self) -> "Lrp":
        with ExitStack() as stack:
            for context in (evaluating(self.model), frozen(self.model), torch.enable_grad()):
                stack.enter_context(context)
            for module in rule.activations(self.model):
                stack.callback(module.register_forward_pre_hook(self._before).remove)
                stack.callback(module.register_forward_hook(self._after).remove)
            super().__enter__()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._stack.close()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Replace an operation by what its rule says, if it has one and relevance would pass."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        name = SPELLINGS.get(name, name)
        found = self._rules.get(name.removesuffix("_"))
        if found is None or not any(map(rule.wants_relevance, (*args, *kwargs.values()))):
            return func(*args, **kwargs)
        if name.endswith("_"):
            return self._in_place(found, name, args, kwargs)
        if name == "mul":
            return self._product(found, func, *args, **kwargs)
        return found(func, *args, **kwargs)

    def _in_place(
        self, found: rule.Rule, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Tensor:
        """The rule beside its first argument, which then takes the value."""
        name = name.removesuffix("_")
        function = getattr(torch, name, None) or getattr(nn.functional, name)
        rest = (function, args[0].clone(), *args[1:])
        product = name == "mul"
        value = self._product(found, *rest) if product else found(*rest, **kwargs)
        return args[0].copy_(value)

    def _product(self, found: rule.Rule, function: rule.Function, input: Any, other: Any) -> Any:
        """Gates of 1 are no activations, and a sigmoid leaves all to what it is the gate of."""
        if rule.wants_relevance(input) and rule.wants_relevance(other):
            if is_gate(input, self.gates) or is_gate(other, self.gates):
                found = rule.plain
            elif is_sigmoid(other):
                other = other.detach()
            elif is_sigmoid(input):
                input = input.detach()
        return found(function, input, other)

    def _before(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self._given.setdefault(module, []).append(args[0])
        return (args[0].detach(), *args[1:])

    def _after(self, module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        return rule.passed(self._given[module].pop(), output)

    def check(self, starts: Tensor) -> None:
        """Refuse numbers that are not finite, and operations on the way that have no rule.

        Raises:
            ModelError: names the operation.
        """
        if not starts.isfinite().all():
            raise ModelError(
                "finite logits were expected to start relevance at, but the model's are not all "
                "finite: look at it with `headcount doctor`"
            )
        refuse_not_linear(starts, self.gates, self.name, ALLOWED[self.name])

    def relevance(
        self, start: Tensor, leaves: Sequence[Tensor], again: bool = False
    ) -> list[Tensor]:
        """Relevance of leaves, elementwise, for a start made inside the context.

        Args:
            start: a logit, or a sum of logits, that `check` has seen.
            leaves: gates, or hidden states.
            again: whether another start of the same forward pass will follow.
        """
        found = torch.autograd.grad(start, leaves, retain_graph=again, materialize_grads=True)
        return [leaf.detach() * each for leaf, each in zip(leaves, found, strict=True)]
