r"""Patch traits and weights: the class token, lines of the grid, neighbours, and distances.

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

Patch weights, without a test:

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

from abc import abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headcount import numbers
from headcount.measures.class_weights import ClassSums, Counted, Seen
from headcount.measures.key_classes import Trait
from headcount.measures.patches import BESIDE, GridColumns, Places, displacements
from headcount.measures.reductions import OFFSETS, Attention, Sides
from headcount.measures.sums import ImageSums, over_queries
from headcount.measures.surface import ON_ITSELF
from headcount.measures.units import Slots
from headcount.tap import Reduction
from headcount.vocabulary import IMAGES, TRAITS, WEIGHTS, ColumnEntry


@final
class ClassToken(Trait):
    """The class token."""

    name, takes = "class", (IMAGES,)

    def members(self, sides: Sides) -> Bool[Tensor, "batch key"]:
        """The first key, if it is no patch."""
        is_key_BK = sides.keys.is_token_BN & ~sides.keys.is_content_BN
        return is_key_BK & (torch.arange(is_key_BK.shape[1], device=is_key_BK.device) == 0)

    def cases(self, sides: Sides) -> Bool[Tensor, "batch query"]:
        """All other queries."""
        is_class_BN = self.members(sides)
        return sides.queries.is_token_BN & ~is_class_BN & is_class_BN.any(1, keepdim=True)


class _Line(Trait):
    """Patches in one line of the grid."""

    takes = (IMAGES,)

    @staticmethod
    @abstractmethod
    def line(places: Places) -> Bool[Tensor, "token token"]:
        """Whether two tokens are patches in one line."""

    def keys(self, sides: Sides, rows: slice, queries: slice) -> Bool[Tensor, "row query key"]:
        """The patches in the line of the query, itself included."""
        num_rows = len(sides.keys.is_token_BN[rows])
        return self.line(sides.once(Places.of))[queries].expand(num_rows, -1, -1)

    def cases(self, sides: Sides) -> Bool[Tensor, "batch query"]:
        """Patches of a grid of several rows and several columns."""
        assert sides.grid is not None
        is_grid = sides.grid.columns > 1 and sides.grid.rows > 1
        return sides.queries.is_content_BN & is_grid


@final
class OwnRow(_Line):
    """The patch's own row."""

    name = "row"

    @staticmethod
    def line(places: Places) -> Bool[Tensor, "token token"]:
        """Whether two patches are in one row."""
        return places.is_same_row()


@final
class OwnColumn(_Line):
    """The patch's own column."""

    name = "column"

    @staticmethod
    def line(places: Places) -> Bool[Tensor, "token token"]:
        """Whether two patches are in one column."""
        return places.is_same_column()


CLASSES: tuple[Trait, ...] = (ClassToken(), OwnRow(), OwnColumn())
"""The classes whose weights are summed."""
PATCH_TRAITS = (*(each.name for each in CLASSES), "near")
"""The traits, in the order of the sums."""


@final
@dataclass(frozen=True)
class PatchTraits(ClassSums, ImageSums):
    """Weight on classes of keys and closeness, by half of the corpus and by unit, and chance's."""

    name = "patch_traits"
    needs = frozenset({Reduction.FIRST, Reduction.BESIDE, Reduction.GRID_MASS})

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
        is_patch_BQ = sides.queries.is_content_BN
        diagonal_HO = over_queries(attention.beside_BHQO, is_patch_BQ)
        far_weight_H = over_queries(on_all_BHQ, is_patch_BQ) - diagonal_HO.sum(-1)
        return cls.made(
            torch.stack(weights), shared.counted, slots, diagonal_HO, far_weight=far_weight_H
        )


@final
@dataclass(frozen=True, eq=False)
class _ClassCases:
    """What the grid says, whatever heads do."""

    counted: Counted
    even_distance_Q: Float[Tensor, " query"]
    """Mean distance of each patch to all patches; 1 for other tokens."""

    @classmethod
    def of(cls, sides: Sides) -> "_ClassCases":
        """The cases of one batch."""
        grid, queries = sides.grid, sides.queries
        assert grid is not None
        places, around = sides.once(Places.of), sides.once(GridColumns.of)
        is_line = torch.stack([places.is_same_row(), places.is_same_column()])
        size_2Q = is_line.sum(-1)
        has_others_BQ = queries.is_content_BN & (grid.num_patches > 1)
        beside_2QO = torch.stack(
            [line.gather(1, around.beside_QO) & around.has_beside_QO for line in is_line]
        )
        nothing_QO, nothing_Q = torch.zeros_like(beside_2QO[0]), torch.zeros_like(size_2Q[0])
        far_2Q = size_2Q - beside_2QO.sum(-1)
        sizes = [torch.ones_like(nothing_Q), *size_2Q, nothing_Q]
        of_queries = (
            torch.stack(sizes).double() / grid.num_tokens,
            torch.stack([nothing_QO, *beside_2QO, nothing_QO]),
            torch.stack([nothing_Q, *far_2Q, nothing_Q]),
        )
        num_rows = len(queries.ids_BN)
        seen = Seen(
            torch.stack([*(each.cases(sides) for each in CLASSES), has_others_BQ]),
            *(each[:, None].expand(-1, num_rows, *each.shape[1:]) for each in of_queries),
        )
        counted = seen.counted(
            sides,
            around.has_beside_QO.expand(num_rows, -1, -1),
            grid.num_patches * queries.is_content_BN,
        )
        distance_Q = places.distance().double().sum(-1) / grid.num_patches
        even_Q = torch.where(distance_Q > 0, distance_Q, 1)
        return cls(counted, even_Q)


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
