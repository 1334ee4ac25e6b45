"""Layout: the cuts that reduce every attention layer of a model to its kept heads.

A layer that loses all its heads keeps the shape of one head without weights. Its queries, keys and
values are zeros, so caches, masks and position biases work as before, and its output projection is
its bias alone.
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
    """One attention layer after the cuts."""

    layer: AttentionLayer
    kept: tuple[int, ...]
    key_value_heads: int
    """Number of kept key/value heads."""
    cuts: tuple[Cut, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    """New values of the attention module's attributes."""


def resized(model: nn.Module, wiring: Wiring, kept: tuple[int, ...]) -> Resized:
    """The cuts of one layer of a model that passed `refuse_rigid_layers`.

    Raises:
        InputError: If key/value groups would keep unequal numbers of heads.
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
    """Cuts of the query, key and value maps."""
    for path, queries, keys_values in _owners(wiring):
        stay = staying(queries, kept) & staying(keys_values, groups)
        yield Cut(path, rows=stay.nonzero().flatten())


def _hollow(wiring: Wiring) -> Iterator[Cut]:
    """Cuts that leave zeros in the size of one head."""
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
    """Raise an error unless each layer has its own attention module and output projection.

    Raises:
        ModelError: If a module is called several times (ALBERT), or the heads' output does not go
            straight into a linear map.
    """
    shared: Sequence[str] = [path for path, each in anatomy.by_module().items() if len(each) > 1]
    if shared:
        raise ModelError(
            f"The model's layers share the attention module {shared[0]}. Removing a head from one "
            "layer would remove it from all, so the model can be gated but not made smaller."
        )
    for layer in anatomy.layers:
        if layer.output is None:
            raise ModelError(
                f"The output of attention in {layer.module} does not go straight into a linear "
                "map. Its use is unknown, so the model can be gated but not made smaller."
            )
