"""Grouped maps: the attention between groups of tokens, of all heads of some layers."""

from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from headcount.core import Head
from headcount.models import Loaded
from headcount.tap import AttentionLayer, Block


@final
class GroupedMaps:
    """Adds up attention between groups of tokens, block by block of the tap.

    Weights are summed over the keys of a group and averaged over its queries.

    Args:
        layers: the layers that are heard; their heads follow each other.
    """

    def __init__(self, layers: Sequence[AttentionLayer]) -> None:
        starts = np.cumsum([0, *(layer.num_heads for layer in layers)]).tolist()
        self._start = {layer.layer_id: at for layer, at in zip(layers, starts[:-1], strict=True)}
        self._num_heads = starts[-1]
        self.maps_BHGG = torch.empty(0)
        """The maps of the batch of the last forward pass."""

    def start(self, sums_BGN: Float[Tensor, "batch group token"]) -> None:
        """Announce the batch of the next forward pass, with 1 where a token is in a group."""
        self._sums_BNG = sums_BGN.transpose(1, 2)
        self.means_BGN = sums_BGN / sums_BGN.sum(-1, keepdim=True).clamp_min(1)
        """The same divided by the number of the group's tokens."""
        batch, groups, _ = sums_BGN.shape
        self.maps_BHGG = sums_BGN.new_zeros(batch, self._num_heads, groups, groups)

    def block(self, block: Block) -> None:
        """Add a block."""
        if (start := self._start.get(block.layer.layer_id)) is None:
            return
        weights_BHQK = block.weights_BHQK.to(self.maps_BHGG.device, torch.float)
        means_BGQ = self.means_BGN[block.rows, :, block.queries]
        map_BHGG = means_BGQ[:, None] @ (weights_BHQK @ self._sums_BNG[block.rows, None])
        start += block.heads.start or 0
        self.maps_BHGG[block.rows, start : start + map_BHGG.shape[1]] += map_BHGG


def probe_layers(loaded: Loaded) -> list[AttentionLayer]:
    """The layers whose attention is between the words of a treebank."""
    layers = loaded.anatomy.layers
    sites = {layer.site for layer in layers}
    site = "encoder.self" if "encoder.self" in sites else "decoder.self"
    return sorted((layer for layer in layers if layer.site == site), key=lambda each: each.layer)


def probe_heads(loaded: Loaded) -> list[Head]:
    """The heads whose attention is between the words of a treebank, in the order of features."""
    return [
        Head(layer.site, layer.layer, index)
        for layer in probe_layers(loaded)
        for index in range(layer.num_heads)
    ]


@final
class GroupedMap:
    """A map between groups of tokens (words): sums over a group's keys, means over its queries.

    Args:
        query_group_BQ: group of each query, -1 if excluded.
        key_group_BK: group of each key, -1 if excluded.
        num_heads: number of heads.
        dtype: data type of the weights.
    """

    def __init__(
        self,
        query_group_BQ: Int64[Tensor, "batch query"],
        key_group_BK: Int64[Tensor, "batch key"],
        num_heads: int,
        dtype: torch.dtype,
    ) -> None:
        member_BQW = _membership(query_group_BQ, dtype)
        num_pieces_BW = member_BQW.sum(1).clamp_min(1)
        self.average_BWQ = (member_BQW / num_pieces_BW[:, None]).transpose(1, 2).contiguous()
        self.member_BKW = _membership(key_group_BK, dtype)
        shape = (len(key_group_BK), num_heads, self.average_BWQ.shape[1], self.member_BKW.shape[2])
        self.map_BHWW = self.average_BWQ.new_zeros(shape)

    def block(self, block: Block) -> None:
        """Add the contribution of a block's queries."""
        weights, rows = block.weights_BHQK, block.rows
        summed = weights.flatten(1, 2) @ self.member_BKW[rows]
        average = self.average_BWQ[rows, None, :, block.queries]
        self.map_BHWW[rows, block.heads] += average @ summed.view(*weights.shape[:3], -1)


def _membership(group_BN: Tensor, dtype: torch.dtype) -> Float[Tensor, "batch token group"]:
    groups = torch.arange(max(1, int(group_BN.max()) + 1), device=group_BN.device)
    return (group_BN[..., None] == groups).to(dtype)
