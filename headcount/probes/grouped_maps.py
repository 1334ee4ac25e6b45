"""Grouped maps: the attention between words, or between mentions, of all heads of some layers."""

from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headcount.tap import AttentionLayer, Block


@final
class GroupedMaps:
    """The tap's listener: adds up attention between groups of tokens, block by block.

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

    def start(
        self,
        sums_BGN: Float[Tensor, "batch group token"],
        means_BGN: Float[Tensor, "batch group token"],
    ) -> None:
        """Announce the batch of the next forward pass.

        Args:
            sums_BGN: 1 where a token is in a group.
            means_BGN: the same divided by the number of the group's tokens.
        """
        self._sums_BNG, self._means_BGN = sums_BGN.transpose(1, 2), means_BGN
        batch, groups, _ = sums_BGN.shape
        self.maps_BHGG = sums_BGN.new_zeros(batch, self._num_heads, groups, groups)

    def begin(self, layer: AttentionLayer, value_BHKD: Tensor, num_queries: int) -> None:
        """Ask for no columns."""

    def block(self, block: Block) -> None:
        """Add a block."""
        if (start := self._start.get(block.layer.layer_id)) is None:
            return
        weights_BHQK = block.weights_BHQK.float()
        means_BGQ = self._means_BGN[block.rows, :, block.queries]
        map_BHGG = means_BGQ[:, None] @ (weights_BHQK @ self._sums_BNG[block.rows, None])
        start += block.heads.start or 0
        self.maps_BHGG[block.rows, start : start + map_BHGG.shape[1]] += map_BHGG

    def end(self, layer: AttentionLayer) -> None:
        """Do nothing."""
