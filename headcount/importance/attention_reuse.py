"""Attention reuse: the first block that an ablation changes need not run attention again.

Queries, keys and values are still clean there. So the heads' outputs of the clean forward, as the
output projection received them, are multiplied by the ablation's gates and projected again.
Earlier attention in the same block (a decoder's self-attention before its cross-attention) is
unchanged.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, final

from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from headcount.importance.rows import giving, repeated
from headcount.models.anatomy import Anatomy, AttentionLayer


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

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Inside, the attention outputs of one forward are stored; earlier ones are dropped."""
        self._kept = {layer: _Kept() for layer in self._modules}
        with ExitStack() as stack:
            for layer, (attention, projection) in self._modules.items():
                kept = self._kept[layer]
                stack.callback(attention.register_forward_hook(_keep_output(kept)).remove)
                stack.callback(projection.register_forward_hook(_keep_projected(kept)).remove)
            yield

    @contextmanager
    def giving_clean(self, layer: AttentionLayer, num_rows: int, times: int) -> Iterator[None]:
        """Inside, a layer's attention returns the stored output with its rows `times` over."""
        if layer not in self._modules:
            yield
            return
        with giving(self._modules[layer][0], repeated(self._kept[layer].output, num_rows, times)):
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
        with giving(self._modules[layer][0], gated):
            yield

    def _gated(self, layer: AttentionLayer, gate_RH: Tensor, num_rows: int) -> Any | None:
        kept, (_, projection) = self._kept[layer], self._modules[layer]
        is_tuple = isinstance(kept.output, tuple)
        first, *rest = kept.output if is_tuple else (kept.output,)
        times = len(gate_RH) // num_rows
        if kept.ctx is None or not (first is kept.ctx or first is kept.projected):
            return None
        heads = (layer.num_heads, layer.head_dim)
        ctx_RNHD = repeated(kept.ctx, num_rows, times).unflatten(-1, heads)
        ctx_RNW = (ctx_RNHD * gate_RH[:, None, :, None].to(ctx_RNHD)).flatten(-2)
        first = ctx_RNW if first is kept.ctx else projection(ctx_RNW)
        return (first, *repeated(tuple(rest), num_rows, times)) if is_tuple else first


def _keep_output(kept: _Kept) -> Any:
    def keep(module: nn.Module, inputs: object, output: Any) -> None:
        kept.output = output

    return keep


def _keep_projected(kept: _Kept) -> Any:
    def keep(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        kept.ctx, kept.projected = inputs[0], output

    return keep
