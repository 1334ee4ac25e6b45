r"""Patches: their places in a grid, and at which of them heads look.

Tokens before the patches have no place. A displacement is that of the key, in patches: one up and
none to the side is "above".

Patch looks: at which displacement in the grid the largest weight is, and what a test needs.

For a head h and a displacement (r, c), in rows and columns of patches, the cases are the patches q
from which there is a patch at q + (r, c). The head hits if, of all patches, it puts its largest
weight there. By chance it would with $1 / |K|$, where K are the patches. In a model without special
tokens the first patch, where heads may rest, is left out of K and no target.

So a head that always looks at the patch above hits in all cases, and patches of the first row are
no cases. Displacements beyond `REACH` are counted together.

Reference: after positional heads: Analyzing Multi-Head Self-Attention (Voita et al., 2019), section
    5.1, https://arxiv.org/abs/1905.09418
Departure: two dimensions; the paper counts queries that have no token at the offset, as misses.

Patch spots: how much of a head goes to one and the same patch of every image.

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
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor

from headcount.core import Grid
from headcount.measures.looks import case_sums, hit_sums, later
from headcount.measures.reductions import Attention, Sides
from headcount.measures.sums import ImageSums
from headcount.measures.units import Moments, Slots
from headcount.tap import Reduction

BESIDE = 1
"""Largest displacement, in rows and in columns, whose weights are counted on their own."""


def displacements(reach: int) -> list[tuple[int, int]]:
    """Displacements of up to `reach` rows and columns, row by row.

    >>> displacements(1)[:4]
    [(-1, -1), (-1, 0), (-1, 1), (0, -1)]
    """
    steps = range(-reach, reach + 1)
    return [(row, column) for row in steps for column in steps]


@final
@dataclass(frozen=True, eq=False)
class Places:
    """Rows and columns of all tokens of an image; -1 for those that are no patch."""

    row_N: Int64[Tensor, " token"]
    column_N: Int64[Tensor, " token"]
    is_patch_N: Bool[Tensor, " token"]

    @classmethod
    def of(cls, sides: Sides) -> "Places":
        """The places of the tokens of a batch of images."""
        assert sides.grid is not None
        return cls.in_grid(sides.grid, sides.keys.ids_BN.device)

    @classmethod
    def in_grid(cls, grid: Grid, device: torch.device | str = "cpu") -> "Places":
        """The places of the tokens of one image."""
        patch_N = torch.arange(grid.num_tokens, device=device) - grid.special
        is_patch_N = patch_N >= 0
        row_N = torch.where(is_patch_N, patch_N // grid.columns, -1)
        return cls(row_N, torch.where(is_patch_N, patch_N % grid.columns, -1), is_patch_N)

    def key_at(self, row: int, column: int) -> Int64[Tensor, " token"]:
        """The patch at a displacement from each token; -1 where there is none."""
        to_row_N, to_column_N = self.row_N + row, self.column_N + column
        num_rows, num_columns = int(self.row_N[-1]) + 1, int(self.column_N[-1]) + 1
        is_inside_N = self.is_patch_N & (to_row_N >= 0) & (to_row_N < num_rows)
        is_inside_N &= (to_column_N >= 0) & (to_column_N < num_columns)
        first = len(self.row_N) - num_rows * num_columns
        return torch.where(is_inside_N, first + to_row_N * num_columns + to_column_N, -1)

    def keys_at(self, reach: int) -> Int64[Tensor, "token displacement"]:
        """The patch at each of `displacements` from each token; -1 where there is none."""
        return torch.stack([self.key_at(*each) for each in displacements(reach)], -1)

    def is_same_row(self) -> Bool[Tensor, "token token"]:
        """Whether two tokens are patches in one row."""
        return (self.row_N[:, None] == self.row_N) & self.are_patches()

    def is_same_column(self) -> Bool[Tensor, "token token"]:
        """Whether two tokens are patches in one column."""
        return (self.column_N[:, None] == self.column_N) & self.are_patches()

    def distance(self) -> Float[Tensor, "token token"]:
        """Euclidean distance between two patches, in patches; 0 for other tokens."""
        rows = self.row_N[:, None] - self.row_N
        columns = self.column_N[:, None] - self.column_N
        return (rows**2 + columns**2).float().sqrt() * self.are_patches()

    def are_patches(self) -> Bool[Tensor, "token token"]:
        """Whether two tokens are both patches."""
        return self.is_patch_N[:, None] & self.is_patch_N


@final
@dataclass(frozen=True, eq=False)
class GridColumns:
    """What weights of patches are multiplied with, made once for a batch."""

    factors_QKM: Float[Tensor, "query key mass"]
    """1 for keys in the query's row, 1 for those in its column, 1 for all patches, distance."""
    beside_QO: Int64[Tensor, "query displacement"]
    """The patch at each displacement up to `BESIDE`; 0 where there is none."""
    has_beside_QO: Bool[Tensor, "query displacement"]

    @classmethod
    def of(cls, sides: Sides) -> "GridColumns":
        """The factors of the patches of a batch of images."""
        places = sides.once(Places.of)
        tables = [places.is_same_row(), places.is_same_column(), places.are_patches()]
        factors = torch.stack([*(each.float() for each in tables), places.distance()], -1)
        beside_QO = places.keys_at(BESIDE)
        return cls(factors, beside_QO.clamp_min(0), beside_QO >= 0)

    def reduced(
        self, weights_BHQK: Float[Tensor, "row head query key"], queries: slice
    ) -> tuple[Float[Tensor, "row head query displacement"], Float[Tensor, "row head query mass"]]:
        """Weights at each displacement, and the sums over patches, of some queries."""
        index_QO = self.beside_QO[queries].expand(*weights_BHQK.shape[:2], -1, -1)
        beside_BHQO = weights_BHQK.gather(-1, index_QO) * self.has_beside_QO[queries]
        factors_QKM = self.factors_QKM[queries].to(weights_BHQK.dtype)
        return beside_BHQO, torch.einsum("bhqk,qkm->bhqm", weights_BHQK, factors_QKM)


REACH = 3
"""Largest displacement, in rows and in columns, that is counted on its own."""

DISPLACEMENTS = tuple(displacements(REACH))
"""The displacements (row, column) that are counted, in the order of the sums."""


@final
@dataclass(frozen=True)
class PatchLooks(ImageSums):
    """Hits and cases of every displacement up to `REACH`, by half of the corpus and by unit."""

    name = "patch_looks"
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


@final
@dataclass(frozen=True)
class PatchSpots(ImageSums):
    """Weight on every place of the grid, by half of the images."""

    name = "patch_spots"
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
