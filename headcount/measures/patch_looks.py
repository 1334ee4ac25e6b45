r"""Patch looks: at which displacement in the grid the largest weight is, and what a test needs.

For a head h and a displacement (r, c), in rows and columns of patches, the cases are the patches q
from which there is a patch at q + (r, c). The head hits if, of all patches, it puts its largest
weight there. By chance it would with $1 / |K|$, where K are the patches. In a model without special
tokens the first patch, where heads may rest, is left out of K and no target.

So a head that always looks at the patch above hits in all cases, and patches of the first row are
no cases. Displacements beyond `REACH` are counted together.

Reference: after positional heads: Analyzing Multi-Head Self-Attention (Voita et al., 2019), section
    5.1, https://arxiv.org/abs/1905.09418
Departure: two dimensions; the paper counts queries that have no token at the offset, as misses.
"""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headcount.measures.grid_places import Places, displacements
from headcount.measures.looks import case_sums, hit_sums, later
from headcount.measures.reductions import Attention, Sides
from headcount.measures.sums import ImageSums
from headcount.measures.units import Moments, Slots
from headcount.tap import Reduction

REACH = 3
"""Largest displacement, in rows and in columns, that is counted on its own."""

DISPLACEMENTS = tuple(displacements(REACH))
"""The displacements (row, column) that are counted, in the order of the sums."""


@final
@dataclass(frozen=True)
class PatchLooks(ImageSums):
    """Hits and cases of every displacement up to `REACH`, by half of the corpus and by unit."""

    needs = frozenset({Reduction.PEAK_LATER})

    hits: Int[Tensor, "half head bin"]
    """Number of cases whose largest weight is at the displacement; the last is beyond `REACH`."""
    moments: Moments
    """Moments of hits over images of the second half, by displacement and head."""
    cases: Int[Tensor, "half displacement"]
    """Number of cases."""
    chance: Float[Tensor, "half displacement"]
    """Sum over cases of the chance of a hit."""
    queries: Int[Tensor, " half"]
    """Number of patches."""

    @classmethod
    def of(cls, attention: Attention) -> "PatchLooks":
        """The sums over one batch."""
        shared, slots = attention.sides.once(_Cases.of), attention.sides.once(Slots.of)
        key_BHQ = attention.peak_later_BHQ
        query_Q = torch.arange(key_BHQ.shape[2], device=key_BHQ.device)
        bin_BHQ = shared.bin_QK[query_Q, key_BHQ]
        is_hit_BHQ = shared.is_query_BQ[:, None].expand(key_BHQ.shape)
        sums = hit_sums(bin_BHQ, is_hit_BHQ, shared.cases_SO, slots)
        return cls(*sums, shared.chance, shared.queries)


@final
@dataclass(frozen=True, eq=False)
class _Cases:
    """What the grid says, whatever heads do."""

    bin_QK: Int[Tensor, "query key"]
    """Number of the displacement of each pair; one more for those beyond `REACH`."""
    is_query_BQ: Bool[Tensor, "batch query"]
    cases_SO: Int[Tensor, "slot displacement"]
    chance: Float[Tensor, "half displacement"]
    queries: Int[Tensor, " half"]

    @classmethod
    def of(cls, sides: Sides) -> "_Cases":
        """The cases of one batch."""
        queries, slots = sides.queries, sides.once(Slots.of)
        target_QO = sides.once(Places.of).keys_at(REACH)
        is_key_BK = later(sides)
        is_query_BQ = queries.is_content_BN & is_key_BK.any(1, keepdim=True)
        has_target_QO = (target_QO >= 0) & (
            target_QO != (0 if sides.counted.has_content_first else -1)
        )
        num_tokens, width = target_QO.shape
        bin_QK = target_QO.new_full((num_tokens, num_tokens + 1), width)
        bin_QK.scatter_(1, target_QO.masked_fill(~has_target_QO, num_tokens), _numbers(target_QO))
        visible_BQ = is_key_BK.sum(1, keepdim=True).expand(is_query_BQ.shape)
        is_case_BQO = is_query_BQ[..., None] & has_target_QO
        halves = [is_query_BQ & each for each in queries.is_half_2BN]
        return cls(
            bin_QK[:, :num_tokens],
            is_query_BQ,
            *case_sums(is_case_BQO, visible_BQ, slots),
            torch.stack([each.sum() for each in halves]),
        )


def _numbers(target_QO: Tensor) -> Tensor:
    """The number of each displacement, for every query."""
    return torch.arange(target_QO.shape[1], device=target_QO.device).expand(target_QO.shape)
