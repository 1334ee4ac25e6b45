"""Reuse: a forward that begins at a later layer, with the clean outputs of the layers before it.

A head's ablation changes nothing before its layer. So the blocks of a model (the entries of its
module lists that hold attention) run once without ablation, and their outputs are stored for one
batch. For an ablation, all blocks before the first changed one return their stored outputs.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, final

from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from headcount.core import LayerId
from headcount.tap import Anatomy, AttentionLayer, block_of, head_group, intercepted, replaced


def repeated(output: Any, num_rows: int, times: int) -> Any:
    """A module's output, with every tensor that has the batch's rows repeated `times` over."""
    if isinstance(output, Tensor):
        has_rows = output.shape[0] == num_rows
        return output.repeat(times, *[1] * (output.ndim - 1)) if has_rows else output
    if isinstance(output, tuple | list):
        return type(output)(repeated(part, num_rows, times) for part in output)
    return output


@final
class Blocks:
    """The blocks of a model in the order of their calls, with their outputs on one batch.

    Args:
        model: Model to run.
        anatomy: Attention layers of the model.
    """

    def __init__(self, model: PreTrainedModel, anatomy: Anatomy) -> None:
        self._starts: dict[LayerId, int] = {}
        self._order: dict[nn.Module, int] = {}
        by_module = anatomy.by_module()
        for layer in anatomy.layers:
            path = block_of(model, anatomy, layer.module)
            block = None if path is None else model.get_submodule(path)
            # Nothing can be skipped before attention that is outside any block, or that layers
            # share (the tap distinguishes those by counting calls).
            if block is None or len(by_module[layer.module]) > 1:
                self._starts[layer.layer_id] = 0
            else:
                start = self._order.setdefault(block, len(self._order))
                self._starts[layer.layer_id] = start
        self._next = _following(model)
        self._kept: dict[nn.Module, Any] = {}

    def __len__(self) -> int:
        return len(self._order)

    def start(self, place: LayerId) -> int:
        """Number of blocks before a layer's attention."""
        return self._starts[place]

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Inside, the blocks' outputs of one forward are stored; earlier ones are dropped."""
        self._kept = {}

        def keep(block: nn.Module, output: Any) -> None:
            self._kept[block] = output

        with intercepted(self._order, after=keep):
            yield

    @contextmanager
    def resuming(self, start: int, num_rows: int, times: int) -> Iterator[None]:
        """Inside, a forward of the stored batch's rows, `times` over, skips the first blocks.

        Args:
            start: Number of blocks that return their stored outputs.
            num_rows: Number of rows in the stored batch.
            times: Number of copies of the rows, one after the other.
        """
        passed = list(self._order)[:start]
        with ExitStack() as stack:
            for block in passed:
                kept = self._kept[block]
                # A skipped block ignores its input, so the block before it need not repeat rows.
                # A block without heads is never skipped.
                if self._next.get(block) not in passed:
                    kept = repeated(kept, num_rows, times)
                stack.enter_context(replaced(block, kept))
            yield


def _following(model: nn.Module) -> dict[nn.Module, nn.Module]:
    """The next entry of the module list for every entry."""
    lists = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    return {one: other for each in lists for one, other in pairwise(each)}


@final
@dataclass
class _Kept:
    """Outputs of an attention module in the clean forward."""

    output: Any = None
    """Output of the module."""
    ctx: Tensor | None = None
    """The heads' outputs side by side, as the projection received them."""
    projected: Tensor | None = None
    """Output of the projection."""


@final
class Attentions:
    """The attention modules of a model and their outputs on one batch.

    Args:
        model: Model to run.
        anatomy: Its attention layers. Layers that share a module or have no output projection of
            their own are always run.
    """

    def __init__(self, model: PreTrainedModel, anatomy: Anatomy) -> None:
        alone = {path for path, layers in anatomy.by_module().items() if len(layers) == 1}
        self._modules = {
            layer: (model.get_submodule(layer.module), model.get_submodule(layer.output))
            for layer in anatomy.layers
            if layer.module in alone and layer.output is not None
        }
        self._kept: dict[AttentionLayer, _Kept] = {}
        self._group = head_group(model)

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Inside, the attention outputs of one forward are stored; earlier ones are dropped."""
        self._kept = {layer: _Kept() for layer in self._modules}
        kept_of = {
            module: self._kept[layer] for layer, both in self._modules.items() for module in both
        }

        def keep_output(attention: nn.Module, output: Any) -> None:
            kept_of[attention].output = output

        def keep_ctx(projection: nn.Module, ctx: Tensor) -> None:
            kept_of[projection].ctx = ctx

        def keep_projected(projection: nn.Module, projected: Tensor) -> None:
            kept_of[projection].projected = projected

        attentions = [attention for attention, _ in self._modules.values()]
        projections = [projection for _, projection in self._modules.values()]
        with (
            intercepted(attentions, after=keep_output),
            intercepted(projections, before=keep_ctx, after=keep_projected),
        ):
            yield

    @contextmanager
    def giving_clean(self, layer: AttentionLayer, num_rows: int, times: int) -> Iterator[None]:
        """Inside, a layer's attention returns the stored output with its rows `times` over."""
        if layer not in self._modules:
            yield
            return
        with replaced(self._modules[layer][0], repeated(self._kept[layer].output, num_rows, times)):
            yield

    @contextmanager
    def giving_gated(
        self, layer: AttentionLayer, gate_RH: Float[Tensor, "row head"], num_rows: int
    ) -> Iterator[None]:
        """Inside, a layer returns its output with gates on the stored outputs of its heads.

        If the stored outputs don't determine it, the layer is run.
        """
        gated = self._gated(layer, gate_RH, num_rows) if layer in self._modules else None
        if gated is None:
            yield
            return
        with replaced(self._modules[layer][0], gated):
            yield

    def _gated(self, layer: AttentionLayer, gate_RH: Tensor, num_rows: int) -> Any | None:
        kept, (_, projection) = self._kept[layer], self._modules[layer]
        is_tuple = isinstance(kept.output, tuple)
        first, *rest = kept.output if is_tuple else (kept.output,)
        times = len(gate_RH) // num_rows
        if kept.ctx is None or not (first is kept.ctx or first is kept.projected):
            return None
        ctx_RNHD = repeated(kept.ctx, num_rows, times).unflatten(-1, (-1, layer.head_dim))
        gate_RH = gate_RH if self._group is None else self._group.own(gate_RH, 1)
        ctx_RNW = (ctx_RNHD * gate_RH[:, None, :, None].to(ctx_RNHD)).flatten(-2)
        first = ctx_RNW if first is kept.ctx else projection(ctx_RNW)
        return (first, *repeated(tuple(rest), num_rows, times)) if is_tuple else first
