r"""Patch spots: how much of a head goes to one and the same patch of every image.

$$\mathrm{spot}(h, p) = \frac{1}{|Q|} \sum_{q \in Q} A_h(q, p)$$

Q is all tokens of all images and p a place in the grid, whatever is in it. By chance a head gives
it 1 / n of n tokens.

Reference: after sinks: What Does BERT Look At? (Clark et al., 2019), section 3.2,
    https://arxiv.org/abs/1906.04341
Departure: no paper defines it for patches.
"""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headcount.measures.reductions import Attention
from headcount.measures.sums import ImageSums
from headcount.measures.units import Moments
from headcount.tap import Reduction


@final
@dataclass(frozen=True)
class PatchSpots(ImageSums):
    """Weight on every place of the grid, by half of the images."""

    needs = frozenset({Reduction.COLUMN})

    weight: Float[Tensor, "half head patch"]
    """Sum over queries of the weight on each patch."""
    moments: Moments
    """Moments of that weight over images of the second half, by patch and head."""
    tokens: Int[Tensor, " half"]
    """Number of queries."""

    @classmethod
    def of(cls, attention: Attention) -> "PatchSpots":
        """The sums over one batch."""
        queries, grid = attention.queries, attention.sides.grid
        assert grid is not None
        is_image_B = queries.is_token_BN.any(1)
        halves = [is_image_B & each for each in queries.is_half_2BN[..., 0]]
        column_BHP = attention.column_BHK[..., grid.special :].double()
        by_half = [column_BHP[each] for each in halves]
        tokens_B1 = queries.is_token_BN.sum(1, keepdim=True)
        second_BPH, num_patches = by_half[1].transpose(1, 2), column_BHP.shape[2]
        return cls(
            torch.stack([each.sum(0) for each in by_half]),
            Moments.of_closed(second_BPH, tokens_B1[halves[1]].expand(-1, num_patches)),
            torch.stack([queries.is_token_BN[each].sum() for each in halves]),
        )
