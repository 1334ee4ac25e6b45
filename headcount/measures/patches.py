r"""What heads do among the patches of images: four measures, and the places of a grid they share.

Places in a grid: where every patch of an image is, seen from every other.

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

Patch traits: how much of a head goes to the class token, along a line, or nearby, with a test.

Four traits of images. Three are the weight on a class of keys: the class token, and the patches in
the query's own row or column, itself included. A head that looks at no key in particular gives a
class of m keys m / n of n tokens. The fourth, near, is the closeness of a patch q,

$$1 - \frac{d_h(q)}{d_0(q)},$$

where $d_h$ is its attention distance (`patch_weights`) and $d_0$ its mean distance to all patches:
0 for even attention, 1 for a head that looks at the patch itself, negative for one that looks far.

Cases are the patches; of the class token also the other special tokens. A grid of one row or one
column has no cases of lines. A head that looks at its neighbours finds its own line, too. What
position alone gives it is the sum over the line of its mean weight at displacements of up to one
row and one column, and of its mean weight on a patch farther away.

References: sinks: Clark et al. (2019), section 3.2, https://arxiv.org/abs/1906.04341; distance:
    Dosovitskiy et al. (2021), figure 7, https://arxiv.org/abs/2010.11929
Departure: no paper defines lines and closeness.

Patch weights: how much attention goes to neighbours, rows and columns, and how far it reaches.

$$\mathrm{attn}_c(h) = \frac{1}{|Q|} \sum_{q \in Q} \sum_{k \in c(q)} A_h(q, k), \qquad
\mathrm{distance}(h) = \frac{1}{|Q|} \sum_{q \in Q}
\frac{\sum_{k \in P} A_h(q, k)\, \|q - k\|}{\sum_{k \in P} A_h(q, k)}$$

P are the patches. For `attn_self` and `attn_class` Q is all tokens, and c(q) is the token itself
or the class token, which is the first. For the others Q is P, and c(q) is the patch to the left, to
the right, above or below, or all patches in the query's row or column, itself included. Where there
is no such patch, the weight counts as 0. The distance is Euclidean, in patches; special tokens are
left out and the other weights are renormalized.

References: An Image is Worth 16x16 Words (Dosovitskiy et al., 2021), figure 7 and appendix D.7,
    https://arxiv.org/abs/2010.11929; self and class: Clark et al. (2019), section 3
Departure: the paper's distance is in pixels: multiply by the patch size.
"""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor

from headcount import numbers
from headcount.core import Grid
from headcount.measures.looks import case_sums, hit_sums, later
from headcount.measures.reductions import OFFSETS, Attention, Sides
from headcount.measures.sums import ImageSums, over_queries
from headcount.measures.surface import ON_ITSELF
from headcount.measures.units import Moments, Slots
from headcount.tap import Reduction
from headcount.vocabulary import TRAITS, WEIGHTS, ColumnEntry

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


PATCH_TRAITS = ("class", "row", "column", "near")
"""The traits, in the order of the sums."""


@dataclass(frozen=True)
class PatchCases:
    """Sums that the grid alone says, whatever heads do."""

    cases: Int[Tensor, "half trait"]
    """Number of queries that are cases."""
    chance: Float[Tensor, "half trait"]
    """Sum over cases of the weight of even attention."""
    beside: Int[Tensor, "half trait displacement"]
    """Number of cases whose patch at each displacement up to one is in the class."""
    far: Int[Tensor, "half trait"]
    """Number of other patches in the class, over cases."""
    diagonal_queries: Int[Tensor, " displacement"]
    """Number of patches that have a patch at each displacement."""
    far_pairs: Int[Tensor, ""]
    """Number of pairs of two patches at other displacements."""


@final
@dataclass(frozen=True)
class PatchTraits(PatchCases, ImageSums):
    """Weight on classes of keys and closeness, by half of the corpus and by unit, and chance's."""

    name = "patch_traits"
    needs = frozenset({Reduction.FIRST, Reduction.BESIDE, Reduction.GRID_MASS})

    weight: Float[Tensor, "half trait head"]
    """Sum over cases of the weight on the class, or of the closeness."""
    moments: Moments
    """Moments of the weight over images of the second half, by trait and head."""
    diagonal: Float[Tensor, "head displacement"]
    """Sum over all patches of the weight at each displacement."""
    far_weight: Float[Tensor, " head"]
    """Sum over all patches of the weight on patches at other displacements."""

    @classmethod
    def of(cls, attention: Attention) -> "PatchTraits":
        """The sums over one batch."""
        sides = attention.sides
        shared, slots = sides.once(_ClassCases.of), sides.once(Slots.of)
        on_all_BHQ = attention.grid_mass("patches")
        distance_BHQ = attention.grid_mass("distance").double() / on_all_BHQ
        near_BHQ = 1 - distance_BHQ / shared.even_distance_Q
        weights = [
            attention.first_BHQ,
            attention.grid_mass("row"),
            attention.grid_mass("column"),
            near_BHQ.where(on_all_BHQ > 0, 0),
        ]
        found = slots.sums(torch.stack(weights), shared.is_case_TBQ)
        is_patch_BQ = sides.queries.is_content_BN
        diagonal_HO = over_queries(attention.beside_BHQO, is_patch_BQ)
        return cls(
            **vars(shared.sums),
            weight=found.halves(),
            moments=Moments.of(found.second_UKH, shared.cases_UT, slots),
            diagonal=diagonal_HO,
            far_weight=over_queries(on_all_BHQ, is_patch_BQ) - diagonal_HO.sum(-1),
        )


@final
@dataclass(frozen=True, eq=False)
class _ClassCases:
    """What the grid says, whatever heads do."""

    is_case_TBQ: Bool[Tensor, "trait batch query"]
    even_distance_Q: Float[Tensor, " query"]
    """Mean distance of each patch to all patches; 1 for other tokens."""
    cases_UT: Int[Tensor, "unit trait"]
    """Number of cases in each unit of the second half."""
    sums: PatchCases

    @classmethod
    def of(cls, sides: Sides) -> "_ClassCases":
        """The cases of one batch."""
        grid, queries, slots = sides.grid, sides.queries, sides.once(Slots.of)
        assert grid is not None
        places, around = sides.once(Places.of), sides.once(GridColumns.of)
        is_line = torch.stack([places.is_same_row(), places.is_same_column()])
        size_2Q = is_line.sum(-1)
        is_first_Q = torch.arange(grid.num_tokens, device=size_2Q.device) == 0
        is_case_TBQ = torch.stack(
            [
                queries.is_token_BN & ~is_first_Q & (grid.special > 0),
                queries.is_content_BN & (grid.columns > 1) & (grid.rows > 1),
                queries.is_content_BN & (grid.columns > 1) & (grid.rows > 1),
                queries.is_content_BN & (grid.num_patches > 1),
            ]
        )
        beside_2QO = torch.stack(
            [line.gather(1, around.beside_QO) & around.has_beside_QO for line in is_line]
        )
        nothing_QO, nothing_Q = torch.zeros_like(beside_2QO[0]), torch.zeros_like(size_2Q[0])
        beside_TQO = torch.stack([nothing_QO, *beside_2QO, nothing_QO])
        far_2Q = size_2Q - beside_2QO.sum(-1)
        ones_Q = torch.ones_like(size_2Q[0])
        even_TQ = torch.stack([ones_Q, *size_2Q, nothing_Q]).double() / grid.num_tokens
        is_half = queries.is_half_2BN
        by_half = [torch.stack([(each & h).sum(0) for each in is_case_TBQ]) for h in is_half]
        cases_2TQ = torch.stack(by_half)
        counted = slots.sums(is_case_TBQ[:, :, None], is_case_TBQ)
        num_images = queries.is_token_BN[:, 0].sum()
        distance_Q = places.distance().double().sum(-1) / grid.num_patches
        pairs = grid.num_patches**2 - around.has_beside_QO.sum()
        sums = PatchCases(
            cases=cases_2TQ.sum(-1),
            chance=(cases_2TQ * even_TQ).sum(-1),
            beside=(cases_2TQ[..., None] * beside_TQO).sum(2),
            far=(cases_2TQ * torch.stack([nothing_Q, *far_2Q, nothing_Q])).sum(-1),
            diagonal_queries=around.has_beside_QO.sum(0) * num_images,
            far_pairs=pairs * num_images,
        )
        even_Q = torch.where(distance_Q > 0, distance_Q, 1)
        return cls(is_case_TBQ, even_Q, counted.second_UKH[..., 0].long(), sums)


@final
@dataclass(frozen=True)
class PatchWeights(ImageSums):
    """Mean weight on eight kinds of keys, and mean attention distance in patches."""

    name = "patch_weights"
    columns = (
        ON_ITSELF,
        ColumnEntry(
            "attn_class",
            "weight on the class token",
            WEIGHTS,
            "mean weight on the class token",
            numbers.percent,
            "C 3.2",
            rests="class token",
            norm="norm_class",
        ),
        ColumnEntry(
            "attn_left",
            "weight on the patch to the left",
            WEIGHTS,
            "mean weight of patches on it",
            numbers.percent,
            "after C 3.1",
        ),
        ColumnEntry(
            "attn_right",
            "weight on the patch to the right",
            WEIGHTS,
            "mean weight of patches on it",
            numbers.percent,
            "after C 3.1",
        ),
        ColumnEntry(
            "attn_above",
            "weight on the patch above",
            WEIGHTS,
            "mean weight of patches on it",
            numbers.percent,
            "after C 3.1",
        ),
        ColumnEntry(
            "attn_below",
            "weight on the patch below",
            WEIGHTS,
            "mean weight of patches on it",
            numbers.percent,
            "after C 3.1",
        ),
        ColumnEntry(
            "attn_row",
            "weight on the own row",
            WEIGHTS,
            "mean weight of patches on their row",
            numbers.percent,
            "-",
        ),
        ColumnEntry(
            "attn_column",
            "weight on the own column",
            WEIGHTS,
            "mean weight of patches on their column",
            numbers.percent,
            "-",
        ),
        ColumnEntry(
            "attn_distance",
            "mean attention distance (patches)",
            "Reach",
            "mean distance between a patch and what it attends to, class token left out",
            numbers.weight,
            "D figure 7",
        ),
    )
    needs = frozenset({Reduction.DIAGONALS, Reduction.FIRST, Reduction.BESIDE, Reduction.GRID_MASS})

    on_tokens: Float[Tensor, "head 2"]
    """Sum over all queries of the weight on the token itself and on the class token."""
    on_patches: Float[Tensor, "head kind"]
    """Sum over patches of the weight on neighbours, row and column."""
    distance: Float[Tensor, " head"]
    """Sum over patches of the attention distance."""
    tokens: Int[Tensor, " 2"]
    """Number of queries, twice; 0 for the class token in models without one."""
    patches: Int[Tensor, ""]
    """Number of queries that are patches."""
    measured: Int[Tensor, " head"]
    """Number of patches that give any weight to patches, whose distance is known."""

    @classmethod
    def of(cls, attention: Attention) -> "PatchWeights":
        """The sums over one batch."""
        is_token_BQ, is_patch_BQ = attention.queries.is_token_BN, attention.queries.is_content_BN
        has_class = not attention.sides.counted.has_content_first
        on_tokens = [
            attention.diagonals_BHQO[..., OFFSETS.index(0)],
            attention.first_BHQ * has_class,
        ]
        beside = displacements(BESIDE)
        around = [TRAITS[name].place or (0, 0) for name in ("left", "right", "above", "below")]
        on_patches = [attention.beside_BHQO[..., beside.index(place)] for place in around]
        on_patches += [attention.grid_mass("row"), attention.grid_mass("column")]
        on_all_BHQ = attention.grid_mass("patches")
        is_known_BHQ = on_all_BHQ > 0
        distance_BHQ = attention.grid_mass("distance").double() / on_all_BHQ
        return cls(
            torch.stack([over_queries(each, is_token_BQ) for each in on_tokens], -1),
            torch.stack([over_queries(each, is_patch_BQ) for each in on_patches], -1),
            over_queries(distance_BHQ.where(is_known_BHQ, 0), is_patch_BQ),
            is_token_BQ.sum() * torch.tensor([1, has_class], device=is_token_BQ.device),
            is_patch_BQ.sum(),
            (is_known_BHQ & is_patch_BQ[:, None]).sum((0, 2)),
        )

    def value(self) -> dict[str, Float[Tensor, " head"]]:
        """Eight shares, each between 0 and 1, and the distance in patches; NaN without a case."""
        shares = [*(self.on_tokens / self.tokens).unbind(-1)]
        shares += [*(self.on_patches / self.patches).unbind(-1)]
        distance = self.distance / self.measured
        return dict(zip(self.names(), (*shares, distance), strict=True))
