r"""Own softmax: the attention of modules that never call transformers' attention function.

$$A = \mathrm{softmax}(\ldots), \qquad o_h = A_h V_h, \qquad
y = [o_1 \ldots o_H] \, W_O + b$$

DeBERTa, MPNet, Bloom, GPT-J and others compute attention themselves. Whatever goes into their
softmax, what it returns is the attention, and the product with it that comes next gives the heads'
outputs. `OwnSoftmax` sees both while the model runs.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from headcount.tap.changes import TorchCalls

_SOFTMAXES = frozenset({functional.softmax, torch.softmax, Tensor.softmax})
_PRODUCTS = frozenset({torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm})
_FUSED = frozenset(
    {functional.scaled_dot_product_attention, functional.multi_head_attention_forward}
)


@final
@dataclass(frozen=True)
class OwnAttention:
    """What a module computed: weights, values and their product, with any leading axes."""

    weights: Float[Tensor, "*rows query key"]
    """What the softmax returned."""
    multiplied: Float[Tensor, "*multiplied_rows query key"]
    """What values are multiplied with: the weights, unless the module changes them first."""
    value: Float[Tensor, "*value_rows key dim"]
    output: Float[Tensor, "*output_rows query dim"]

    @property
    def is_changed(self) -> bool:
        """Whether values are multiplied with something else than weights and zeros."""
        multiplied = self.multiplied.reshape(self.weights.shape).to(self.weights.dtype)
        expected = self.weights.where(multiplied != 0, 0)
        return not torch.allclose(multiplied, expected, rtol=1e-2, atol=1e-3)

    def num_heads(self, batch_size: int) -> int:
        """Number of heads, if batch and head are the leading axes; 0 if the batch does not fit."""
        rows = self.weights.shape[:-2].numel()
        return 0 if rows % batch_size else rows // batch_size

    def weights_by_head(self, batch_size: int) -> Float[Tensor, "batch head query key"]:
        """The weights with axes of batch and head."""
        return self.weights.reshape(batch_size, -1, *self.weights.shape[-2:])

    def value_by_head(self, batch_size: int) -> Float[Tensor, "batch key_value_head key dim"]:
        """The values with axes of batch and head; heads that share values have them once."""
        return self.value.reshape(batch_size, -1, *self.value.shape[-2:])

    def output_by_query(self, batch_size: int) -> Float[Tensor, "batch query head dim"]:
        """The heads' outputs in the order of transformers' attention functions."""
        output = self.output.reshape(batch_size, -1, *self.output.shape[-2:])
        return output.transpose(1, 2)


@final
class OwnSoftmax(TorchCalls):
    """Inside, sees softmaxes of scores and their products, in the module that is running.

    Args:
        running: The modules that are running now, the innermost last.
        seen: Receives the innermost module and its attention, once the product is there.
        fused: Receives the innermost module that calls a fused attention function of torch.
    """

    def __init__(
        self,
        running: Sequence[nn.Module],
        seen: Callable[[nn.Module, OwnAttention], None],
        fused: Callable[[nn.Module], None] | None = None,
    ) -> None:
        super().__init__()
        self.running, self.seen, self.fused = running, seen, fused
        self.waiting: dict[nn.Module, Tensor] = {}
        """What a module's softmax returned, until the product."""
        self._is_paused = False

    def call(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """Call a function of torch, and look at what it returns."""
        result = function(*args, **kwargs)
        if self.running and not self._is_paused:
            if function in _SOFTMAXES and result.ndim in (3, 4, 5):
                self.waiting[self._attending()] = result
            elif function in _PRODUCTS:
                # The product may be in a module of its own (SqueezeBERT)
                waiting = (each for each in reversed(self.running) if each in self.waiting)
                if (module := next(waiting, None)) is not None:
                    self._product(module, args[0], args[1], result)
            elif function in _FUSED and self.fused is not None:
                self.fused(self.running[-1])
        return result

    def _attending(self) -> nn.Module:
        """The innermost module that runs, except for a softmax that is a module itself."""
        outside = (each for each in reversed(self.running) if not isinstance(each, nn.Softmax))
        return next(outside, self.running[-1])

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Inside, nothing is seen."""
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False

    def _product(self, module: nn.Module, left: Tensor, right: Tensor, result: Tensor) -> None:
        weights = self.waiting[module]
        if left.shape[-2:] == weights.shape[-2:] and left.numel() == weights.numel():
            del self.waiting[module]
            self.seen(module, OwnAttention(weights, left, right, result))
