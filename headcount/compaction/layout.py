"""Layout: how every attention layer of a model is cut to what a plan keeps of it.

A layer that loses all its heads keeps the shape of one, without weights: its queries, keys and
values are zeros, so that caches, masks and position biases go on as they were, and its output
projection is its bias alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import torch
from torch import nn

from headcount.compaction.counts import recounted
from headcount.compaction.cut import Cut, staying
from headcount.compaction.groups import kept_groups
from headcount.compaction.wiring import NOBODY, Wiring
from headcount.errors import ModelError
from headcount.models.anatomy import Anatomy, AttentionLayer


@final
@dataclass(frozen=True)
class Resized:
    """One attention layer as it is to be."""

    layer: AttentionLayer
    kept: tuple[int, ...]
    key_value_heads: int
    """How many key/value heads stay."""
    cuts: tuple[Cut, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    """What the attention module is to remember."""


def resized(model: nn.Module, wiring: Wiring, kept: tuple[int, ...]) -> Resized:
    """How one layer is cut, of a model that `refuse_rigid_layers` let pass.

    Raises:
        InputError: where key/value groups would be left with unequal numbers of heads.
    """
    layer = wiring.layer
    assert layer.output is not None
    groups = kept_groups(layer, kept)
    cuts = tuple(_inward(wiring, kept, groups) if kept else _hollow(wiring))
    columns = torch.arange(layer.num_heads * layer.head_dim).view(layer.num_heads, -1)
    if kept:
        output = Cut(layer.output, columns=columns[list(kept)].flatten())
    else:
        size = Cut(layer.output).of(model)[0]["out"]
        output = Cut(layer.output, constant=size)
    heads, key_value_heads = max(1, len(kept)), max(1, len(groups))
    module = model.get_submodule(layer.module)
    attributes = recounted(module, heads, key_value_heads, heads * layer.head_dim)
    return Resized(layer, kept, len(groups), (*cuts, output), attributes)


def _inward(wiring: Wiring, kept: tuple[int, ...], groups: tuple[int, ...]) -> Iterator[Cut]:
    """Of queries, keys and values."""
    for path, queries, keys_values in _owners(wiring):
        stay = staying(queries, kept) & staying(keys_values, groups)
        yield Cut(path, rows=stay.nonzero().flatten())


def _hollow(wiring: Wiring) -> Iterator[Cut]:
    """Zeros in the size of one head."""
    for path, queries, keys_values in _owners(wiring):
        rows = ((queries == 0) | (keys_values == 0)).nonzero().flatten()
        yield Cut(path, rows=rows, constant=len(rows))


def _owners(wiring: Wiring) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    for path in dict.fromkeys([*wiring.queries, *wiring.keys_values]):
        present = wiring.queries.get(path, wiring.keys_values.get(path))
        assert present is not None
        nobody = torch.full_like(present, NOBODY)
        queries = wiring.queries.get(path, nobody)
        yield path, queries, wiring.keys_values.get(path, nobody)


def refuse_rigid_layers(anatomy: Anatomy) -> None:
    """Let a model pass whose layers each have an attention module and an output projection.

    Raises:
        ModelError: for one that calls a module several times (ALBERT), or where the output of the
            heads does not go straight into a linear map.
    """
    shared: Sequence[str] = [path for path, each in anatomy.by_module().items() if len(each) > 1]
    if shared:
        raise ModelError(
            f"the model's layers share the attention module {shared[0]}: a head that goes from one "
            "layer would go from all, so the model can be gated but not made smaller"
        )
    for layer in anatomy.layers:
        if layer.output is None:
            raise ModelError(
                f"attention of {layer.module} does not go straight into a linear map: what becomes "
                "of a head's output is not known, so the model can be gated but not made smaller"
            )
