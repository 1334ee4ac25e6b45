"""The reducer: asks a kernel for statistics of one layer's attention, and says what they are.

Reductions that need the map are read block by block; blocks are forgotten, and only if a sentence
takes several, its word-level map needs all of them at once. What no measure needs is not computed.
"""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headcount.measures.arcs import ArcHits
from headcount.measures.key_classes import ClassReader, Trait
from headcount.measures.patches import GridColumns
from headcount.measures.reductions import (
    GRID_MASSES,
    MASSES,
    NORM_MASSES,
    Attention,
    Sides,
    check_finite,
)
from headcount.tap import COLUMNS, AttentionLayer, Block, Reduction, Statistics, without_padding

NORMS = frozenset({Reduction.VALUE_NORM, Reduction.NORM_MASS})
"""Reductions that need the norms of values."""

_GRID = frozenset({Reduction.BESIDE, Reduction.GRID_MASS})
"""Reductions over the patches of images."""

_WORDS = frozenset({Reduction.ARC_HITS, Reduction.WORD_LOOKS})
"""Reductions of word-level maps."""


@final
class AttentionReducer:
    """Builds the `Attention` of one layer call from the tap's blocks.

    Args:
        layer: the layer.
        sides: the tokens that attend and are attended to, shared by layers.
        roots_HDD: for every head, R with R R^T = W_O W_O^T, so that ||v W_O|| = ||v R||; None if
            unknown, or if no norms are needed.
        value_BHKD: the values, with key/value heads repeated.
        needs: the reductions to compute.
        classes: classes of keys of plug-ins' traits.
    """

    def __init__(
        self,
        layer: AttentionLayer,
        sides: Sides,
        roots_HDD: Tensor | None,
        value_BHKD: Tensor,
        needs: Set[Reduction],
        classes: Sequence[Trait] = (),
    ) -> None:
        self.layer, self.sides, self.needs = layer, sides, frozenset(needs)
        batch, num_heads = value_BHKD.shape[:2]
        per_query = (batch, num_heads, sides.queries.ids_BN.shape[1])
        zeros = value_BHKD.new_zeros  # padding is never reduced
        has_grid = bool(self.needs & _GRID) and sides.grid is not None
        self._grid = sides.once(GridColumns.of) if has_grid else None
        if self._grid is not None:
            self._beside_BHQO = zeros(*per_query, self._grid.beside_QO.shape[1])
            self._grid_mass_BHQM = zeros(*per_query, len(GRID_MASSES))
        self.value_norm_BHK: Tensor | None = None
        if self.needs & NORMS:
            self.value_norm_BHK = value_norms(value_BHKD, roots_HDD)
        knows_norms = self.needs >= {Reduction.VALUE_NORM} and roots_HDD is not None
        self._values_H = None if knows_norms else value_BHKD.sum((0, 2, 3))
        words = sides.words if self.needs & _WORDS else None
        with_looks = Reduction.WORD_LOOKS in self.needs
        self._arc_hits = None if words is None else ArcHits(words, num_heads, with_looks)
        self._classes = ClassReader(sides, classes, zeros(*per_query)) if classes else None
        self.statistics = Statistics.zeros(
            sides.counted,
            value_BHKD,
            self.needs | {Reduction.FIRST},
            self._columns(value_BHKD),
            needs_map=any((self._grid, self._arc_hits, self._classes)),
        )

    def _columns(self, value_BHKD: Tensor) -> Float[Tensor, "batch head key mass"] | None:
        """The columns whose products with the weights are masses, each where `self._places` says.

        A column that is not needed is zero: a product of another width would round differently.
        """
        self._places: dict[Reduction, slice] = {}
        if not self.needs & COLUMNS:
            return None
        shared = self.sides.once(_Columns.of)
        norm = self.value_norm_BHK
        if norm is None or Reduction.NORM_MASS not in self.needs:
            norm = value_BHKD.new_zeros(value_BHKD.shape[:3])
        parts = {
            Reduction.MASS: shared.fixed_B1KC,
            Reduction.NORM_MASS: norm[..., None] * shared.norms_B1KC,
            Reduction.OWN_SEGMENT: shared.segments_B1KC,
            Reduction.KINDS: shared.kinds_B1KC if Reduction.KINDS in self.needs else None,
        }
        there = {name: part for name, part in parts.items() if part is not None}
        ends = accumulate((part.shape[-1] for part in there.values()), initial=0)
        self._places = {
            name: slice(*place) for name, place in zip(there, pairwise(ends), strict=True)
        }
        return torch.cat([part.expand(*norm.shape, -1) for part in there.values()], -1)

    def block(self, block: Block) -> None:
        """Read the map of one block; its weights are overwritten."""
        for part in without_padding(self.sides.counted, block):
            if self._grid is not None:
                place = (part.rows, part.heads, part.queries)
                beside, masses = self._grid.reduced(part.weights_BHQK, part.queries)
                self._beside_BHQO[place], self._grid_mass_BHQM[place] = beside, masses
            if self._classes is not None:
                place = (part.rows, part.heads, part.queries)
                self._classes.block(*place, part.weights_BHQK)
            if self._arc_hits is not None:
                self._arc_hits.block(part)

    def attention(self) -> Attention:
        """The reductions of the layer, once all blocks have arrived.

        Raises:
            ModelError: if a weight or a value is not finite; names the head.
        """
        attention = self.unchecked()
        check_finite(attention.total_H(), [self.layer])
        return attention

    def unchecked(self) -> Attention:
        """The reductions of the layer, finite or not."""
        numbers = self.statistics.numbers
        makers: dict[Reduction, Callable[[], Any]] = {
            each: partial(numbers.__getitem__, each) for each in numbers
        }
        makers |= {
            Reduction.DIAGONALS: lambda: numbers[Reduction.DIAGONALS].movedim(0, -1),
            Reduction.MASS: partial(self._masses, Reduction.MASS),
            Reduction.NORM_MASS: partial(self._masses, Reduction.NORM_MASS),
            Reduction.OWN_SEGMENT: self._own_segment,
            Reduction.KINDS: partial(self._masses, Reduction.KINDS),
            Reduction.VALUE_NORM: lambda: self.value_norm_BHK,
            Reduction.ARC_HITS: lambda: None if self._arc_hits is None else self._arc_hits.hits(),
            Reduction.WORD_LOOKS: lambda: None if self._arc_hits is None else self._arc_hits.looks,
            Reduction.BESIDE: lambda: None if self._grid is None else self._beside_BHQO,
            Reduction.CLASS_WEIGHTS: lambda: self._classes and self._classes.weights_BHQT,
            Reduction.GRID_MASS: lambda: None if self._grid is None else self._grid_mass_BHQM,
        }
        reduced = {each: makers[each]() for each in self.needs | {Reduction.FIRST}}
        return Attention(self.layer, self.sides, reduced, self.needs, values_H=self._values_H)

    def _masses(self, name: Reduction) -> Tensor | None:
        """The products with the columns of a reduction; None without such columns."""
        masses_BHQC, place = self.statistics.masses_BHQC, self._places.get(name)
        return None if masses_BHQC is None or place is None else masses_BHQC[..., place]

    def _own_segment(self) -> Tensor | None:
        segments_BHQS = self._masses(Reduction.OWN_SEGMENT)
        if segments_BHQS is None or self.sides.segment_BN is None:
            return None
        own_BHQ1 = self.sides.segment_BN[:, None, :, None].expand(*segments_BHQS.shape[:3], 1)
        return segments_BHQS.gather(-1, own_BHQ1).squeeze(-1)


@final
@dataclass(frozen=True, eq=False)
class _Columns:
    """The columns of a batch whose products with the weights are masses."""

    fixed_B1KC: Bool[Tensor, "batch 1 key mass"]
    """Keys of each of `MASSES`."""
    norms_B1KC: Bool[Tensor, "batch 1 key norm_mass"]
    """Keys of each of `NORM_MASSES`, to be multiplied by norms."""
    segments_B1KC: Bool[Tensor, "batch 1 key segment"] | None
    """Keys of each segment, if there are several."""
    kinds_B1KC: Bool[Tensor, "batch 1 key kind"] | None
    """Keys of pictures, and of what the text says without its template, if there are pictures."""

    @classmethod
    def of(cls, sides: Sides) -> "_Columns":
        """The columns of the keys of a batch."""
        is_sep_BK, is_punct_BK = sides.keys.is_sep_BN, sides.keys.is_punct_BN
        is_first_BK = torch.zeros_like(is_sep_BK)
        is_first_BK[:, 0] = True
        is_in = {"sep": is_sep_BK, "punct": is_punct_BK, "norm": torch.ones_like(is_sep_BK)}
        is_in |= {"norm_first": is_first_BK, "norm_sep": is_sep_BK, "norm_punct": is_punct_BK}
        segments, segment_BN = None, sides.segment_BN
        if segment_BN is not None:
            number_S = torch.arange(int(segment_BN.max()) + 1, device=segment_BN.device)
            segments = segment_BN[:, None, :, None] == number_S
        kinds, is_shown_BK = None, sides.keys.is_picture_BN
        if is_shown_BK is not None:
            is_said_BK = sides.keys.is_content_BN & ~is_shown_BK
            kinds = torch.stack([is_shown_BK, is_said_BK], -1)[:, None]
        return cls(
            torch.stack([is_in[name] for name in MASSES], -1)[:, None],
            torch.stack([is_in[name] for name in NORM_MASSES], -1)[:, None],
            segments,
            kinds,
        )


def value_norms(value_BHKD: Tensor, roots_HDD: Tensor | None) -> Float[Tensor, "batch head key"]:
    """||v W_O^h|| of every key, computed as ||v R^h|| without vectors of the model's width."""
    if roots_HDD is None:
        return value_BHKD.new_full(value_BHKD.shape[:3], torch.nan)
    batch, num_heads, num_keys, head_dim = value_BHKD.shape
    # One product a head, over all keys of the batch: values lie in memory as [batch, key, head]
    value_HRD = value_BHKD.transpose(1, 2).reshape(-1, num_heads, head_dim).transpose(0, 1)
    norm_HR = torch.linalg.vector_norm(value_HRD @ roots_HDD.to(value_BHKD), dim=-1)
    return norm_HR.view(num_heads, batch, num_keys).transpose(0, 1)
