r"""The tap: observes every attention call of a model, block by block; gates heads, masks scores.

$$o_h = g_h \, A_h V_h + (1 - g_h) \, r_h, \qquad
A_h = \mathrm{softmax}(s\,Q_h K_h^\top + \text{mask})$$

The replacement r_h, which stands in for a head as far as its gate is closed, is zero by default.

Inside the `with` block the model computes what it always computes. A listener receives each
layer's attention in blocks of rows, heads and queries; nothing larger than a block is ever
allocated. If no listener wants weights, torch's fused attention stays in use. Afterwards nothing
of ours remains.

Modules that take a softmax of their own (`own_softmax`) allocate a layer's weights themselves. A
listener receives those as one block, and gates act where the heads' outputs enter the output
projection.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward

from headcount.core import LayerId, ModelError
from headcount.tap.anatomy import Anatomy, AttentionLayer, CallOrder
from headcount.tap.attention_interface import (
    Dispatched,
    dispatching,
    plain_attention,
    stock_attention,
)
from headcount.tap.blocking import Blocked, check_blocked, narrowed
from headcount.tap.call import Call, implementation_of
from headcount.tap.changes import intercepted
from headcount.tap.kernel_blocks import AttentionCall, Cut, blocks, fill
from headcount.tap.kernels import BLOCKS, Attending, Kernel
from headcount.tap.listener import Block, Listener, Statistics, statistics_of
from headcount.tap.own_softmax import OwnAttention, OwnSoftmax
from headcount.tap.placement import head_group, input_device
from headcount.tap.seen_keys import Masks

Gates = Mapping[LayerId, Float[Tensor, "*rows head"]]
"""Gates by (site, layer): one per head; per row and head; or per row, query and head.

Layers without an entry are unchanged.
"""

BLOCK = 2**21
"""Number of weights in a block (8 MiB in float32): small blocks cost calls, large ones memory."""

DEVICE_BLOCK = 2**26
"""Number of weights in a block on a GPU (256 MiB), where a call costs as much as a large block."""


Replacement = Callable[[AttentionLayer, Tensor, Tensor | None], Tensor]
"""Makes the replacement of heads: maps layer, values [batch, head, key, dim] and mask to a tensor
that broadcasts to their output [batch, query, head, dim]."""


Returned = Callable[[AttentionLayer, Tensor], Tensor | None]
"""Receives what attention returns, [batch, query, head, dim]; returns a replacement, or None."""

Called = Callable[[AttentionLayer, Call], None]
"""Receives the queries and keys of a layer, and what is masked."""


@final
class Tap:
    """A context in which a model's attention is observed, gated and blocked.

    Inside another tap on the same model the outer gates and blocks stay in force; only the inner
    listener receives attention.

    Args:
        model: any transformers model that dispatches its attention.
        anatomy: the result of `examine(model)`.
        listener: receives all attention weights; None leaves fused attention in use.
        gates: factors for the heads' outputs.
        replacement: makes the replacement of a head whose gate is closed; None for zero.
        block: number of weights in a block; by default `BLOCK`, on a GPU `DEVICE_BLOCK`.
        blocked: scores that are masked before the softmax.
        kernel: computes the weights, and what the listener asks of them, where it can; the others
            are computed in blocks.

    Raises:
        InputError: if what is blocked is not boolean, or has other sizes than a call.
        ModelError: if heads are to be replaced, or scores blocked, in modules that take a softmax
            of their own, since what may be attended to is not known there.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        anatomy: Anatomy,
        listener: Listener | None = None,
        gates: Gates | None = None,
        replacement: Replacement | None = None,
        block: int | None = None,
        blocked: Blocked | None = None,
        kernel: Kernel = BLOCKS,
    ) -> None:
        self.kernel = kernel
        self.model, self.anatomy, self.listener = model, anatomy, listener
        self.blocked = blocked or {}
        check_blocked(self.blocked, anatomy, type(model).__name__)
        self.gates, self.replacement = gates or {}, replacement
        self.block = block or (BLOCK if input_device(model).type == "cpu" else DEVICE_BLOCK)
        self._layers = {
            model.get_submodule(path): layers for path, layers in anatomy.by_module().items()
        }
        own = [layer for layer in anatomy.layers if layer.by_own_softmax]
        self._own_modules = {model.get_submodule(layer.module) for layer in own}
        self._projected: dict[nn.Module, list[AttentionLayer]] = {}
        for layer in own:
            self._projected.setdefault(model.get_submodule(layer.output or ""), []).append(layer)
        if own and replacement is not None:
            why = (
                "so what a head may attend to is unknown and its output can't be replaced by a "
                "mean. Replace it by zero."
            )
            raise own[0].not_ours(type(model).__name__, why)
        self._dead = {model.get_submodule(path) for path in anatomy.dead.values()}
        towers = (model.get_submodule(path) for path in anatomy.not_run)
        self._towers = {module for tower in towers for module in tower.modules()}
        self._order = CallOrder(model)
        self._returning: list[Returned] = []
        self._calling: list[Called] = []
        self._masks, self._group = Masks(), head_group(model)
        self._outer: Tap | None = None
        self._stack = ExitStack()

    def __enter__(self) -> "Tap":
        self._outer = tap_on(self.model)
        name = self.anatomy.implementation
        lean = self.listener is not None and not self.blocked
        self._stack.enter_context(dispatching(self.model, self._attend, name, as_intervals=lean))
        self._stack.enter_context(self._order.counting())
        if self._own_modules:
            self._stack.enter_context(self._own_softmaxes())
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

    @contextmanager
    def calling(self, called: Called) -> Iterator[None]:
        """Inside, every call of attention through the interface is passed to a function."""
        self._calling.append(called)
        try:
            yield
        finally:
            self._calling.remove(called)

    def _attend(self, call: Call) -> Tensor:
        call.kwargs.pop("output_attentions", None)
        if call.module in self._dead:  # zeros, whatever the arithmetic
            return plain_attention(call)
        if call.module in self._towers:  # its heads are not looked at, and it computes as it does
            return stock_attention(call)
        layer, mask, empty = self._layer_of(call.module), call.mask, None
        group = self._group if self._group is not None and self._sees_all() else None
        if group is not None:
            _check_gathers(call, type(self.model).__name__)
            parts = {name: getattr(call, name) for name in ("query", "key", "value")}
            call = replace(call, **{name: group.all(each, 1) for name, each in parts.items()})
        if (blocked := self._blocking(layer)) is not None:
            seen, empty = narrowed(mask, blocked.to(call.query.device), call.query, call.key)
            call = replace(call, mask=seen)
        output = self.attended(layer, call, empty)
        output = self._heard(layer, self._gated(layer, output, call.value, mask))
        return output if group is None else group.own(output, 2)

    def attended(self, layer: AttentionLayer, call: Call, empty: Tensor | None = None) -> Tensor:
        """The heads' outputs for one call, [batch, query, head, dim], before gates.

        Args:
            layer: the layer that calls.
            call: the call, with an explicit mask; what is blocked is already masked.
            empty: queries [row, head, query, 1] from which all keys are blocked; None for none.
        """
        for called in self._calling:
            called(layer, call)
        fused = not self.anatomy.eager and call.kwargs.get("softcap") is None
        if self.listener is not None or not fused:
            facts = self._masks.facts(call.mask)
            return self._listen(layer, AttentionCall(call, facts, empty, self.anatomy.eager))
        kwargs: dict[str, Any] = call.kwargs | {"is_causal": False}  # masks are explicit
        output, _ = sdpa_attention_forward(*call.tensors, **kwargs)
        return output if empty is None else output.masked_fill(empty.transpose(1, 2), 0)

    def _sees_all(self) -> bool:
        """Whether more is done in this tap, or one outside it, than to gate each head."""
        parts = (self.listener, self._returning, self._calling, self.replacement, self.blocked)
        return any(map(_is_given, parts)) or (self._outer is not None and self._outer._sees_all())

    def _blocking(self, layer: AttentionLayer) -> Tensor | None:
        """The layer's scores that are masked by this tap or by a tap outside it."""
        own = self.blocked.get(layer.layer_id)
        outer = None if self._outer is None else self._outer._blocking(layer)
        return own if outer is None else outer if own is None else own | outer

    def _heard(self, layer: AttentionLayer, output: Tensor) -> Tensor:
        """The heads' outputs after the functions that hear them, of this tap and those outside."""
        output = self._returned(layer, output)
        return output if self._outer is None else self._outer._heard(layer, output)

    def _returned(self, layer: AttentionLayer, output: Tensor) -> Tensor:
        for returned in self._returning:
            new = returned(layer, output)
            output = output if new is None else new
        return output

    def _gated(
        self, layer: AttentionLayer, output: Tensor, value: Tensor, mask: Tensor | None
    ) -> Tensor:
        """The heads' outputs after this tap's gates, and then those of a tap outside it."""
        gate = self._gate(layer, output)
        if gate is not None:
            gated = output * gate
            if self.replacement is not None:
                value = repeat_kv(value, layer.num_heads // value.shape[1])
                gated = gated + (1 - gate) * self.replacement(layer, value, mask)
            output = gated
        if self._outer is not None:
            return self._outer._gated(layer, output, value, mask)
        return output

    def _gate(self, layer: AttentionLayer, output: Tensor) -> Tensor | None:
        """The layer's gates in this tap, to be multiplied by [batch, query, head, dim]."""
        gate = self.gates.get(layer.layer_id)
        if gate is None:
            return None
        gate = gate.to(output)
        gate = gate[..., None] if gate.ndim == 3 else gate[..., None, :, None]
        is_part = self._group is not None and output.shape[2] < layer.num_heads
        return self._group.own(gate, -2) if self._group is not None and is_part else gate

    @contextmanager
    def _own_softmaxes(self) -> Iterator[None]:
        """Inside, modules with a softmax of their own are heard and gated."""
        running: list[nn.Module] = []
        current: dict[nn.Module, AttentionLayer] = {}
        attended: dict[LayerId, OwnAttention] = {}
        projections = CallOrder(self.model)

        def begin(module: nn.Module, given: Any) -> None:
            running.append(module)
            current[module] = self._order.next(module, self._layers[module])

        def end(module: nn.Module, output: Any) -> None:
            running.pop()

        def seen(module: nn.Module, attention: OwnAttention) -> None:
            attended[current[module].layer_id] = attention

        def project(projection: nn.Module, given: Tensor) -> Tensor:
            layer = projections.next(projection, self._projected[projection])
            attention = attended.pop(layer.layer_id, None)
            if self.listener is not None and tap_on(self.model) is self:
                if attention is None:
                    raise ModelError(
                        f"Expected {layer.module} to take a softmax, as it did when the model was "
                        "examined, but it did not. Run the model on inputs of the kind it was "
                        "examined with."
                    )
                _pass_on(self.listener, layer, attention, len(given))
            output = given.unflatten(-1, (layer.num_heads, layer.head_dim))
            gate = self._gate(layer, output)
            output = output if gate is None else output * gate
            return self._returned(layer, output).flatten(-2)

        with ExitStack() as stack:
            stack.enter_context(projections.counting())
            stack.enter_context(intercepted(self._projected, project))
            if self.listener is not None:
                stack.enter_context(intercepted(self._own_modules, begin, end, after_errors=True))
                stack.enter_context(OwnSoftmax(running, seen))
            yield

    def _listen(self, layer: AttentionLayer, call: AttentionCall) -> Tensor:
        """Compute attention for the listener, at once or in blocks."""
        if call.kwargs.get("dropout"):
            raise ModelError("Expected a model without dropout. Call model.eval() before the tap.")
        listener, value = self.listener, call.repeated(call.value).to(call.dtype)
        asked = None if listener is None else listener.begin(layer, value, call.query.shape[2])
        statistics = statistics_of(asked)
        kernel = self.kernel if self.kernel.takes(call, statistics) else BLOCKS
        output = kernel.begin(call, statistics, self.block)
        if not isinstance(output, Tensor):
            output = self._in_blocks(layer, call, output, value, statistics)
        if listener is not None:
            listener.end(layer)
        return self._without_unseeing(output, call)

    def _in_blocks(
        self,
        layer: AttentionLayer,
        call: AttentionCall,
        attending: Attending,
        value: Tensor,
        asked: Statistics,
    ) -> Tensor:
        """Compute attention in blocks; each is passed to the listener and discarded."""
        columns, num_columns = asked.columns_BHKC, 0
        widened = value
        if columns is not None:
            widened, num_columns = _side_by_side(value, columns), columns.shape[-1]
        batch, num_heads, num_queries, _ = call.query.shape
        num_keys, head_dim = value.shape[2:]
        output = call.value.new_empty(batch, num_queries, num_heads, head_dim)

        def attend(cut: Cut) -> None:
            rows, heads, queries = cut
            weights, keys = attending.weights(*cut)
            product = weights @ widened[rows, heads, keys]
            output[rows, queries, heads] = product[..., :head_dim].transpose(1, 2)
            if self.listener is not None:
                masses = product[..., head_dim : head_dim + num_columns]
                block = Block(layer, *cut, weights, masses, keys.start, num_keys)
                attending.fill(block)
                if asked.needs_map:
                    self.listener.block(block)

        cuts = blocks(call, attending.size, whole_heads=self.anatomy.eager)
        attending.over(cuts, attend)
        attending.end()
        return output

    def _without_unseeing(self, output: Tensor, call: AttentionCall) -> Tensor:
        """Zero the outputs of queries that see no key, as fused attention does (left padding).

        With a position bias, sdpa gets numbers in place of the mask, and such queries see all
        keys. The masks of eager models are numbers, too.
        """
        sees_BQ = None if call.facts is None else call.facts.sees_BQ
        if sees_BQ is None or call.kwargs.get("position_bias") is not None:
            return output
        return output * sees_BQ[..., None, None]


def _is_given(part: object) -> bool:
    """Whether a listener or a function is there, or something to block or to call."""
    return part is not None and part != {} and part != []


def _check_gathers(call: Call, kind: str) -> None:
    """Check that what a process knows of its heads is all in their queries, keys and values."""
    mask, names = call.mask, ("s_aux", "position_bias")
    has_more = any(call.kwargs.get(name) is not None for name in names)
    if has_more or (mask is not None and mask.ndim > 1 and mask.shape[1] != 1):
        raise ModelError(
            f"Expected heads of {kind} that differ in queries, keys and values alone, but they "
            "have sinks or biases of their own, which are not gathered under tensor parallelism. "
            "Load it without tp_plan, or with device='auto'."
        )


def tap_on(model: PreTrainedModel) -> Tap | None:
    """The tap that is already active on the model, if any."""
    active = AttentionInterface._global_mapping.get(implementation_of(model) or "")
    holder = getattr(active.attend, "__self__", None) if isinstance(active, Dispatched) else None
    return holder if isinstance(holder, Tap) else None


def _pass_on(
    listener: Listener, layer: AttentionLayer, attention: OwnAttention, batch_size: int
) -> None:
    """Pass attention that a module computed itself to a listener, as one block."""
    weights = attention.weights_by_head(batch_size)
    value = attention.value_by_head(batch_size)
    dtype = torch.promote_types(weights.dtype, torch.float32)
    weights = weights.to(dtype)
    value = repeat_kv(value, layer.num_heads // value.shape[1]).to(dtype)
    statistics = statistics_of(listener.begin(layer, value, weights.shape[2]))
    columns = statistics.columns_BHKC
    masses = weights @ (value[..., :0] if columns is None else columns.to(dtype))
    rows, heads, queries = (slice(0, size) for size in weights.shape[:3])
    block = Block(layer, rows, heads, queries, weights, masses)
    fill(statistics, block)
    if statistics.needs_map:
        listener.block(block)
    listener.end(layer)


def _side_by_side(value: Tensor, columns: Tensor) -> Tensor:
    """Values, columns and zeros, since products of odd widths are slow."""
    num_keys, width = value.shape[2], value.shape[-1] + columns.shape[-1]
    margin = -width % (16 if num_keys >= 128 else 8)
    return torch.cat([value, columns.to(value), value.new_zeros(*value.shape[:-1], margin)], -1)
