r"""The tap: observes every attention call of a model, block by block, and can gate each head.

$$o_h = g_h \, A_h V_h + (1 - g_h) \, r_h, \qquad
A_h = \mathrm{softmax}(s\,Q_h K_h^\top + \text{mask})$$

The replacement r_h, which stands in for a head as far as its gate is closed, is zero by default.

Inside the `with` block the model computes what it always computes. A listener receives each
layer's attention in blocks of rows, heads and queries; nothing larger than a block is ever
allocated. If no listener wants weights, torch's fused attention stays in use. Afterwards nothing
of ours remains.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, final, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward

from headcount.core import Gates, ModelError
from headcount.tap.anatomy import Anatomy, AttentionLayer, CallOrder
from headcount.tap.attention_interface import dispatching, implementation_of

BLOCK = 2**21
"""Number of weights in a block (8 MiB in float32): small blocks cost calls, large ones memory."""


Replacement = Callable[[AttentionLayer, Tensor, Tensor | None], Tensor]
"""Makes the replacement of heads: maps layer, values [batch, head, key, dim] and mask to a tensor
that broadcasts to their output [batch, query, head, dim]."""


Returned = Callable[[AttentionLayer, Tensor], Tensor | None]
"""Receives what attention returns, [batch, query, head, dim]; returns a replacement, or None."""


@final
@dataclass(frozen=True)
class Block:
    """A part of one layer's attention: some rows of the batch, heads and queries; all keys."""

    layer: AttentionLayer
    rows: slice
    heads: slice
    queries: slice
    weights_BHQK: Float[Tensor, "rows heads queries key"]
    masses_BHQC: Float[Tensor, "rows heads queries columns"]
    """Weights times the columns that the listener asked for in addition to the values."""


@runtime_checkable
class Listener(Protocol):
    """Receives attention: for each layer `begin`, then `block` at least once, then `end`."""

    def begin(
        self,
        layer: AttentionLayer,
        value_BHKD: Float[Tensor, "batch head key dim"],
        num_queries: int,
    ) -> Float[Tensor, "batch head key columns"] | None:
        """Begin a layer; returned columns are multiplied by the weights too."""

    def block(self, block: Block) -> None:
        """Receive a block of the layer's attention."""

    def end(self, layer: AttentionLayer) -> None:
        """Finish the layer, after all of its blocks."""


@final
class Tap:
    """A context in which a model's attention is observed and gated.

    Inside another tap on the same model the outer gates stay in force; only the inner listener
    receives attention.

    Args:
        model: any transformers model that dispatches its attention.
        anatomy: the result of `examine(model)`.
        listener: receives all attention weights; None leaves fused attention in use.
        gates: factors for the heads' outputs.
        replacement: makes the replacement of a head whose gate is closed; None for zero.
        block: number of weights in a block.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        anatomy: Anatomy,
        listener: Listener | None = None,
        gates: Gates | None = None,
        replacement: Replacement | None = None,
        block: int = BLOCK,
    ) -> None:
        self.model, self.anatomy, self.listener = model, anatomy, listener
        self.gates, self.replacement, self.block = gates or {}, replacement, block
        self._layers = {
            model.get_submodule(path): layers for path, layers in anatomy.by_module().items()
        }
        self._dead = {model.get_submodule(path) for path in anatomy.dead.values()}
        self._order = CallOrder(model)
        self._returning: list[Returned] = []
        self._outer: Tap | None = None
        self._stack = ExitStack()

    def __enter__(self) -> "Tap":
        self._outer = tap_on(self.model)
        # Which rows sdpa leaves at zero depends on the implementation that we replace.
        eager = implementation_of(self.model) == "eager"
        self._zero_unseeing = not eager if self._outer is None else self._outer._zero_unseeing
        self._stack.enter_context(dispatching(self.model, self._attend))
        self._stack.enter_context(self._order.counting())
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _layer_of(self, module: nn.Module) -> AttentionLayer:
        if module not in self._layers:
            raise ModelError(
                f"{type(module).__name__} called attention, but did not when the model was "
                "examined. Run the model on inputs of the kind it was examined with."
            )
        return self._order.next(module, self._layers[module])

    @contextmanager
    def returning(self, returned: Returned) -> Iterator[None]:
        """Inside, what attention returns, after all gates, is passed to a function.

        What the function returns, unless None, takes its place.
        """
        self._returning.append(returned)
        try:
            yield
        finally:
            self._returning.remove(returned)

    def _attend(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        **kwargs: Any,
    ) -> tuple[Tensor, None]:
        kwargs.pop("output_attentions", None)
        if module in self._dead:  # zeros, whatever the arithmetic
            output, _ = sdpa_attention_forward(
                module, query, key, value, mask, is_causal=False, **_shaping(kwargs)
            )
            return output, None
        layer = self._layer_of(module)
        fused = not self.anatomy.eager and kwargs.get("softcap") is None
        if self.listener is None and fused:
            kwargs["is_causal"] = False  # masks are explicit
            output, _ = sdpa_attention_forward(module, query, key, value, mask, **kwargs)
        else:
            output = self._listen(layer, _Call(module, query, key, value, mask, kwargs))
        return self._heard(layer, self._gated(layer, output, value, mask)), None

    def _heard(self, layer: AttentionLayer, output: Tensor) -> Tensor:
        """The heads' outputs after the functions that hear them, of this tap and those outside."""
        for returned in self._returning:
            new = returned(layer, output)
            output = output if new is None else new
        return output if self._outer is None else self._outer._heard(layer, output)

    def _gated(
        self, layer: AttentionLayer, output: Tensor, value: Tensor, mask: Tensor | None
    ) -> Tensor:
        """The heads' outputs after this tap's gates, and then those of a tap outside it."""
        gate = self.gates.get(layer.layer_id)
        if gate is not None:
            gate = gate.to(output)
            gate = gate[..., None] if gate.ndim == 3 else gate[..., None, :, None]
            gated = output * gate
            if self.replacement is not None:
                value = repeat_kv(value, layer.num_heads // value.shape[1])
                gated = gated + (1 - gate) * self.replacement(layer, value, mask)
            output = gated
        if self._outer is not None:
            return self._outer._gated(layer, output, value, mask)
        return output

    def _listen(self, layer: AttentionLayer, call: "_Call") -> Tensor:
        """Compute attention in blocks; each is passed to the listener and discarded."""
        if call.kwargs.get("dropout"):
            raise ModelError("Expected a model without dropout. Call model.eval() before the tap.")
        listener, value = self.listener, call.repeated(call.value).to(call.dtype)
        columns = None if listener is None else listener.begin(layer, value, call.query.shape[2])
        widened = value if columns is None else _side_by_side(value, columns)
        weights_of = call.eager_weights if self.anatomy.eager else call.weights
        batch, num_heads, num_queries, head_dim = *call.query.shape[:3], value.shape[3]
        output = call.value.new_empty(batch, num_queries, num_heads, head_dim)
        for rows, heads, queries in _blocks(call, self.block, whole_heads=self.anatomy.eager):
            weights = weights_of(rows, heads, queries)
            product = weights @ widened[rows, heads]
            output[rows, queries, heads] = product[..., :head_dim].transpose(1, 2)
            if listener is not None:
                num_columns = 0 if columns is None else columns.shape[-1]
                masses = product[..., head_dim : head_dim + num_columns]
                listener.block(Block(layer, rows, heads, queries, weights, masses))
        if listener is not None:
            listener.end(layer)
        return self._without_unseeing(output, call)

    def _without_unseeing(self, output: Tensor, call: "_Call") -> Tensor:
        """Zero the outputs of queries that see no key, as fused attention does (left padding).

        With a position bias, sdpa gets numbers in place of the mask, and such queries see all
        keys.
        """
        mask, biased = call.mask, call.kwargs.get("position_bias") is not None
        if mask is None or mask.dtype != torch.bool or biased or not self._zero_unseeing:
            return output
        sees_BQ = mask.any(-1)[:, 0, :, None, None]
        return output if sees_BQ.all() else output * sees_BQ


@final
class _Call:
    """The arguments of one attention call, and its weights, a block at a time."""

    def __init__(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        kwargs: dict[str, Any],
    ) -> None:
        self.module, self.query, self.key, self.value = module, query, key, value
        self.mask, self.kwargs = mask, kwargs
        self.dtype = torch.promote_types(query.dtype, torch.float32)
        self.scaling = kwargs.get("scaling") or query.shape[-1] ** -0.5
        self.bias = None if mask is None else _additive(mask, self.dtype)

    def repeated(self, tensor: Tensor) -> Tensor:
        """Key or value heads, each repeated for the queries that share it."""
        return repeat_kv(tensor, self.query.shape[1] // tensor.shape[1])

    @cached_property
    def _key_BHDK(self) -> Tensor:
        """Keys, scaled and transposed; BLAS accepts the transpose directly."""
        key = self.repeated(self.key).to(self.dtype)
        if key.requires_grad:
            return (key.contiguous() * self.scaling).transpose(-1, -2)
        scaled = torch.empty(key.shape, dtype=key.dtype, device=key.device)
        # One pass scales and makes contiguous; autograd does not allow `out`.
        return torch.mul(key, self.scaling, out=scaled).transpose(-1, -2)

    def weights(self, rows: slice, heads: slice, queries: slice) -> Tensor:
        """Softmax of the scaled, soft-capped, biased and masked scores of a block."""
        scores = self.query[rows, heads, queries].to(self.dtype) @ self._key_BHDK[rows, heads]
        if (cap := self.kwargs.get("softcap")) is not None:
            # The last step is not in place: tanh's gradient needs its result
            scores = scores.div_(cap).tanh_() * cap
        for bias in (self.kwargs.get("position_bias"), self.bias):
            if bias is not None:
                scores = scores.add_(_cut(bias, rows, heads, queries))
        return scores.softmax(-1)

    def eager_weights(self, rows: slice, heads: slice, queries: slice) -> Tensor:
        """The weights as the model's own eager function computes them, for all heads of a block."""
        eager = vars(sys.modules[type(self.module).__module__])["eager_attention_forward"]
        bias = None if self.bias is None else _cut(self.bias, rows, heads, queries)
        kwargs = self.kwargs
        if (position_bias := kwargs.get("position_bias")) is not None:
            kwargs = kwargs | {"position_bias": _cut(position_bias, rows, heads, queries)}
        query, key, value = self.query[rows, :, queries], self.key[rows], self.value[rows]
        _, weights = eager(self.module, query, key, value, bias, **kwargs)
        return weights.to(self.dtype)


def _shaping(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: kwargs[name] for name in ("scaling", "position_bias") if name in kwargs}


def tap_on(model: PreTrainedModel) -> Tap | None:
    """The tap that is already active on the model, if any."""
    attend = AttentionInterface._global_mapping.get(implementation_of(model) or "")
    holder = getattr(attend, "__self__", None)
    return holder if isinstance(holder, Tap) else None


def _additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    if mask.dtype != torch.bool:
        return mask.to(dtype)
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, torch.finfo(dtype).min)


def _side_by_side(value: Tensor, columns: Tensor) -> Tensor:
    """Values, columns, and zeros if there are many keys: products of odd widths are slow."""
    num_keys, width = value.shape[2], value.shape[-1] + columns.shape[-1]
    margin = -width % 16 if num_keys >= 128 else 0
    return torch.cat([value, columns.to(value), value.new_zeros(*value.shape[:-1], margin)], -1)


def _cut(bias: Tensor, rows: slice, heads: slice, queries: slice) -> Tensor:
    """A block of a bias that may have size 1 along rows, heads or queries."""
    parts = (
        part if size > 1 else slice(None)
        for part, size in zip((rows, heads, queries), bias.shape[:3], strict=True)
    )
    return bias[tuple(parts)]


def _blocks(call: _Call, size: int, whole_heads: bool) -> Iterator[tuple[slice, slice, slice]]:
    """Cuts of at most `size` weights: complete rows if they fit, else heads, else queries."""
    batch, num_heads, num_queries = call.query.shape[:3]
    num_keys = call.key.shape[2]
    per_head = max(1, num_queries * num_keys)
    heads = num_heads if whole_heads else max(1, min(num_heads, size // per_head))
    rows = max(1, size // (per_head * num_heads)) if heads == num_heads else 1
    queries = max(1, min(num_queries, size // (heads * num_keys)))
    for row in range(0, batch, rows):
        for head in range(0, num_heads, heads):
            for query in range(0, num_queries, queries):
                yield (
                    slice(row, row + rows),
                    slice(head, head + heads),
                    slice(query, query + queries),
                )


@final
class FunctionListener:
    """A listener that calls one function with every block."""

    def __init__(self, function: Callable[[Block], None]) -> None:
        self.function = function

    def begin(self, layer: AttentionLayer, value_BHKD: Tensor, num_queries: int) -> None:
        """Ask for no columns."""

    def block(self, block: Block) -> None:
        """Pass the block on."""
        self.function(block)

    def end(self, layer: AttentionLayer) -> None:
        """Do nothing."""
