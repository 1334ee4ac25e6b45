r"""Patch weights: how much attention goes to neighbours, rows and columns, and how far it reaches.

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
from jaxtyping import Float, Int
from torch import Tensor

from headcount.measures.grid_places import BESIDE, displacements
from headcount.measures.reductions import OFFSETS, Attention
from headcount.measures.sums import ImageSums, over_queries
from headcount.tap import Reduction
from headcount.vocabulary import TRAITS


@final
@dataclass(frozen=True)
class PatchWeights(ImageSums):
    """Mean weight on eight kinds of keys, and mean attention distance in patches."""

    columns = (
        "attn_self",
        "attn_class",
        "attn_left",
        "attn_right",
        "attn_above",
        "attn_below",
        "attn_row",
        "attn_column",
        "attn_distance",
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
        return dict(zip(self.columns, (*shares, distance), strict=True))
