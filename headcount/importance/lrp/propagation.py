r"""Layer-wise relevance propagation for any model, by rules around its forward pass.

$$R_u = u \, \frac{\partial v}{\partial u}\Big|_{\text{rules}}, \qquad \sum_u R_u = v$$

Inside the context, every operation that has a rule (rules.py) is replaced by a linear one of the
same value as the model runs. One ordinary backward pass then gives relevance. Relevance is
conserved: it adds up to the logit, except for the part that biases take. Under `alpha_beta`,
relevance itself flows back in place of the gradient, starts at 1 and adds up to 1 (shares.py).
LRP is covered by patents of its inventors; ask them before commercial use. All code here is our own.

Reference: On Pixel-Wise Explanations for Non-Linear Classifier Decisions (Bach et al., 2015), https://doi.org/10.1371/journal.pone.0130140
Reference: Analyzing Multi-Head Self-Attention (Voita et al., 2019), section 4 and appendix A, https://arxiv.org/abs/1905.09418
Departure: `voita2019` treats attention weights as constants, so relevance flows through values
    only. Under `attnlrp` the softmax has its true derivative (the paper's Taylor rule), which does
    not conserve the sum: as the paper says, it loses what a bias would take. `alpha_beta` follows
    the code of a later paper by the same first author, see alpha_beta.py.
"""  # noqa: E501

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel

from headcount.core import ModelError
from headcount.importance.lrp import rules as rule
from headcount.importance.lrp.graph import (
    check_rules,
    is_gate,
    is_sigmoid,
    linear_steps,
    moving_steps,
)
from headcount.importance.lrp.rule_sets import SPELLINGS, rule_set
from headcount.importance.scores import frozen
from headcount.tap import evaluating, intercepted


@final
class Lrp(TorchFunctionMode):
    """A context that records a model's forward pass under the rules of a rule set.

    Inside, the model's parameters are frozen and it is in evaluation mode; both are restored.

    Args:
        model: Any transformers model.
        rules: Name of the rule set.
        gates: Leaves of 1 that heads' outputs are multiplied with.
    """

    def __init__(self, model: PreTrainedModel, rules: str, gates: Sequence[Tensor] = ()) -> None:
        super().__init__()
        self.model, self.name, self.gates = model, rules, gates
        self._rules = rule_set(rules)
        self._tied: dict[nn.Module, rule.Rule] = {}
        self._given: dict[nn.Module, list[Tensor]] = {}
        self._stack = ExitStack()

    def __enter__(self) -> "Lrp":
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

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Replace an operation by its rule, if it has one and relevance passes through it."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        name = SPELLINGS.get(name, name)
        found = self._rules.operations.get(name.removesuffix("_"))
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
        """
        found = torch.autograd.grad(start, leaves, retain_graph=again, materialize_grads=True)
        if self._rules.direct:
            return list(found)
        return [leaf.detach() * each for leaf, each in zip(leaves, found, strict=True)]
