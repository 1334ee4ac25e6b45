"""The reducer: computes the reductions of one layer's attention from the tap's blocks.

Blocks arrive one by one and are forgotten; only if a sentence takes several, its word-level map
needs all of them at once. What no measure needs is not computed.
"""

from collections.abc import Set
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headcount.measures.arcs import ArcHits
from headcount.measures.grid_places import GridColumns
from headcount.measures.reductions import (
    GRID_MASSES,
    MASSES,
    NORM_MASSES,
    OFFSETS,
    Attention,
    Reduction,
    Sides,
)
from headcount.tap import AttentionLayer, Block

NORMS = frozenset({Reduction.VALUE_NORM, Reduction.NORM_MASS})
"""Reductions that need the norms of values."""

_MASSES = frozenset({Reduction.MASS, Reduction.NORM_MASS, Reduction.OWN_SEGMENT})
"""Reductions that are products with columns beside the values."""

_GRID = frozenset({Reduction.BESIDE, Reduction.GRID_MASS})
"""Reductions over the patches of images."""

_WORDS = frozenset({Reduction.ARC_HITS, Reduction.WORD_LOOKS})
"""Reductions of word-level maps."""

_PEAKS = frozenset({Reduction.PEAK, Reduction.PEAK_KEY, Reduction.PEAK_LATER})

_CONTENT = _WORDS | _PEAKS | {Reduction.PEAK_SPECIAL}
"""Reductions that distinguish content keys from special ones."""

_QUERIES = _WORDS | {Reduction.COLUMN}
"""Reductions over queries, where padding does not count."""

_KEYS = frozenset({Reduction.PEAK_KEY, Reduction.PEAK_LATER})
"""Reductions that are numbers of keys."""

_BY_QUERY = _PEAKS | {Reduction.PEAK_SPECIAL, Reduction.ENTROPY, Reduction.NONE}
"""Reductions that are one number a query."""

_CHUNK = 64
"""Number of keys per chunk in the search for the largest of many weights."""


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
    """

    def __init__(
        self,
        layer: AttentionLayer,
        sides: Sides,
        roots_HDD: Tensor | None,
        value_BHKD: Tensor,
        needs: Set[Reduction],
    ) -> None:
        self.layer, self.sides, self.needs = layer, sides, frozenset(needs)
        batch, num_heads, num_keys, _ = value_BHKD.shape
        per_query = (batch, num_heads, sides.queries.ids_BN.shape[1])
        zeros = value_BHKD.new_zeros  # padding is never reduced
        self._first_BHQ = zeros(per_query)
        self._of_queries = {
            each: zeros(per_query, dtype=torch.long if each in _KEYS else None)
            for each in _BY_QUERY & self.needs
        }
        if Reduction.DIAGONALS in needs:
            self._diagonals_OBHQ = zeros(len(OFFSETS), *per_query)
        if Reduction.COLUMN in needs:
            self._column_BHK = zeros(batch, num_heads, num_keys)
        has_grid = bool(self.needs & _GRID) and sides.grid is not None
        self._grid = sides.once(GridColumns.of) if has_grid else None
        if self._grid is not None:
            self._beside_BHQO = zeros(*per_query, self._grid.beside_QO.shape[1])
            self._grid_mass_BHQM = zeros(*per_query, len(GRID_MASSES))
        self.value_norm_BHK: Tensor | None = None
        if self.needs & NORMS:
            self.value_norm_BHK = value_norms(value_BHKD, roots_HDD)
        self._knows_norms = self.value_norm_BHK is not None and roots_HDD is not None
        self._values_H = None if self._knows_norms else value_BHKD.sum((0, 2, 3))
        self._segment_BN = sides.segment_BN if self.needs & _MASSES else None
        self.columns_BHKC = self._columns(value_BHKD)
        if self.columns_BHKC is not None:
            self._masses_BHQC = zeros(*per_query, self.columns_BHKC.shape[-1])
        words = sides.words if self.needs & _WORDS else None
        with_looks = Reduction.WORD_LOOKS in self.needs
        self._arc_hits = None if words is None else ArcHits(words, num_heads, with_looks)

    def _columns(self, value_BHKD: Tensor) -> Float[Tensor, "batch head key mass"] | None:
        """The columns whose products with the weights are `MASSES`, `NORM_MASSES` and segments.

        A column that is not needed is zero: a product of another width would round differently.
        """
        if not self.needs & _MASSES:
            return None
        shared = self.sides.once(_Columns.of)
        fixed_BKC, factors_BKC = shared.fixed_BKC.to(value_BHKD), shared.norms_BKC.to(value_BHKD)
        norm = self.value_norm_BHK
        if norm is None or Reduction.NORM_MASS not in self.needs:
            norm = value_BHKD.new_zeros(value_BHKD.shape[:3])
        parts = [fixed_BKC[:, None], norm[..., None] * factors_BKC[:, None]]
        if self._segment_BN is not None:
            parts.append(self.sides.once(_segment_columns)[:, None].to(value_BHKD))
        shape = norm.shape
        return torch.cat([part.expand(*shape, -1) for part in parts], -1)

    def block(self, block: Block) -> None:
        """Reduce one block without its padding; its weights are overwritten."""
        first_row, first_query = block.rows.start, block.queries.start
        for rows, num_queries, num_keys in self.sides.parts(block.rows):
            queries = slice(first_query, min(block.queries.stop, num_queries))
            if first_query >= queries.stop:
                continue
            at = slice(rows.start - first_row, rows.stop - first_row)
            part = (at, slice(None), slice(queries.stop - first_query))
            weights, masses = block.seen_BHQK[part], block.masses_BHQC[part]
            if num_keys <= block.first_key:
                continue
            weights = weights[..., : num_keys - block.first_key]
            its = (block.layer, rows, block.heads, queries, weights, masses)
            self._reduce(Block(*its, block.first_key, num_keys))

    def _reduce(self, block: Block) -> None:
        weights, place = block.seen_BHQK, (block.rows, block.heads, block.queries)
        # A weight that is not finite makes its whole row so, also times 0
        self._first_BHQ[place] = weights[..., 0] * (block.first_key == 0)
        if Reduction.NONE in self.needs:
            self._of_queries[Reduction.NONE][place] = 1 - weights.sum(-1)
        if self.columns_BHKC is not None:
            self._masses_BHQC[place] = block.masses_BHQC
        if self._grid is not None:
            beside, masses = self._grid.reduced(block.weights_BHQK, block.queries)
            self._beside_BHQO[place], self._grid_mass_BHQM[place] = beside, masses
        if Reduction.DIAGONALS in self.needs:
            self._diagonals(block)
        if Reduction.ENTROPY in self.needs:
            logs = weights.clamp_min(torch.finfo(weights.dtype).tiny).log_()
            self._of_queries[Reduction.ENTROPY][place] = -logs.mul_(weights).sum(-1)
        if self.needs & _QUERIES and self.sides.has_padding:
            is_query_BQ = self.sides.attending.is_token_BN[block.rows, block.queries]
            weights *= is_query_BQ[:, None, :, None].to(weights.dtype)
        if Reduction.COLUMN in self.needs:
            column_BHK = self._column_BHK[block.rows, block.heads, block.keys]
            column_BHK += self._measured(block).sum(-2)
        if self.needs & _CONTENT:
            self._peaks(block)
        if self._arc_hits is not None:
            self._arc_hits.block(block)

    def _measured(self, block: Block) -> Tensor:
        """The weights of a block, 0 where the query is context."""
        if self.sides.with_context is None:
            return block.seen_BHQK
        is_query_BQ = self.sides.queries.is_token_BN[block.rows, block.queries]
        return block.seen_BHQK * is_query_BQ[:, None, :, None]

    def _diagonals(self, block: Block) -> None:
        """The weights at each of `OFFSETS`; 0 where there is no key that is seen."""
        key_QO, is_key_QO = self.sides.near(block.queries, block.keys)
        weights, place = block.seen_BHQK, (block.rows, block.heads, block.queries)
        near_BHQO = weights.gather(-1, key_QO.expand(*weights.shape[:2], -1, -1)) * is_key_QO
        self._diagonals_OBHQ[:, *place] = near_BHQO.movedim(-1, 0)

    def _peaks(self, block: Block) -> None:
        """The largest weights on special and on content keys."""
        weights, (rows, keys) = block.seen_BHQK, self.sides.special_keys(block.rows, block.keys)
        place = (block.rows, block.heads, block.queries)
        if Reduction.PEAK_SPECIAL in self.needs:
            special_NHQ = weights[rows, :, :, keys]
            index_NHQ = rows[:, None, None].expand_as(special_NHQ)
            self._of_queries[Reduction.PEAK_SPECIAL][place] = weights.new_zeros(
                weights.shape[:3]
            ).scatter_reduce(0, index_NHQ, special_NHQ, "amax")
        weights[rows, :, :, keys] = -1
        if self.needs & _KEYS:
            peak = self._peak_keys(block, place)
        else:
            peak = weights.amax(-1) if Reduction.PEAK in self.needs else None
        if Reduction.PEAK in self.needs and peak is not None:
            self._of_queries[Reduction.PEAK][place] = peak

    def _peak_keys(self, block: Block, place: tuple[slice, ...]) -> Tensor:
        """Find the keys of the largest weights, with and without the first token, in one search."""
        weights, first = block.seen_BHQK, None
        if self.sides.has_content_first and block.first_key == 0:
            first = weights[..., 0].clone()
            weights[..., 0] = -1
        peak, key = peaks(weights)
        if Reduction.PEAK_LATER in self.needs:
            self._of_queries[Reduction.PEAK_LATER][place] = self._key(block, peak, key, begin=1)
        if first is not None:
            weights[..., 0] = first
            key = key.masked_fill(first >= peak, 0)
            peak = torch.maximum(peak, first)
        if Reduction.PEAK_KEY in self.needs:
            self._of_queries[Reduction.PEAK_KEY][place] = self._key(block, peak, key)
        return peak

    def _key(self, block: Block, peak: Tensor, key: Tensor, begin: int = 0) -> Tensor:
        """Keys of the largest weights. If these are 0, it is the first content key, seen or not."""
        if not block.is_partial:
            return key
        content_B = self.sides.first_content(begin)[block.rows]
        return torch.where(peak > 0, key + block.first_key, content_B[:, None, None])

    def attention(self) -> Attention:
        """The reductions of the layer, once all blocks have arrived.

        Raises:
            ModelError: if a weight or a value is not finite; names the head.
        """
        attention = self.unchecked()
        attention.check_finite()
        return attention

    def unchecked(self) -> Attention:
        """The reductions of the layer, finite or not."""
        sides, num_classes = self.sides, len(MASSES) + len(NORM_MASSES)
        makers: dict[Reduction, Any] = {
            Reduction.PEAK: lambda: self._of_queries[Reduction.PEAK].clamp_min(0),
            Reduction.DIAGONALS: lambda: self._diagonals_OBHQ.movedim(0, -1),
            Reduction.FIRST: lambda: self._first_BHQ,
            Reduction.MASS: lambda: self._masses_BHQC[..., : len(MASSES)],
            Reduction.NORM_MASS: lambda: self._masses_BHQC[..., len(MASSES) : num_classes],
            Reduction.OWN_SEGMENT: lambda: (self._own_segment(), self._segment_BN),
            Reduction.COLUMN: lambda: self._column_BHK,
            Reduction.VALUE_NORM: lambda: self.value_norm_BHK,
            Reduction.ARC_HITS: lambda: None if self._arc_hits is None else self._arc_hits.hits(),
            Reduction.WORD_LOOKS: lambda: None if self._arc_hits is None else self._arc_hits.looks,
            Reduction.BESIDE: lambda: None if self._grid is None else self._beside_BHQO,
            Reduction.GRID_MASS: lambda: None if self._grid is None else self._grid_mass_BHQM,
        }
        reduced = self._of_queries | {each: makers[each]() for each in self.needs & makers.keys()}
        return Attention(self.layer, sides, reduced, self.needs, total_H=self._total())

    def _own_segment(self) -> Tensor | None:
        if self._segment_BN is None:
            return None
        segments_BHQS = self._masses_BHQC[..., len(MASSES) + len(NORM_MASSES) :]
        own_BHQ1 = self._segment_BN[:, None, :, None].expand(*segments_BHQS.shape[:3], 1)
        return segments_BHQS.gather(-1, own_BHQ1).squeeze(-1)

    def _total(self) -> Tensor:
        """A sum over each head, which is finite if all of its weights and values are."""
        # A weight that is not finite makes its whole row of weights so
        total_H = _sum(self._first_BHQ, self.sides.queries.is_token_BN)
        if self._values_H is not None:
            total_H = total_H + self._values_H
        elif self.value_norm_BHK is not None:
            total_H = total_H + _sum(self.value_norm_BHK, self.sides.keys.is_token_BN)
        return total_H


@final
@dataclass(frozen=True, eq=False)
class _Columns:
    """The columns of a batch whose products with the weights are masses."""

    fixed_BKC: Bool[Tensor, "batch key mass"]
    """Keys of each of `MASSES`."""
    norms_BKC: Bool[Tensor, "batch key norm_mass"]
    """Keys of each of `NORM_MASSES`, to be multiplied by norms."""

    @classmethod
    def of(cls, sides: Sides) -> "_Columns":
        """The columns of the keys of a batch."""
        is_sep_BK, is_punct_BK = sides.keys.is_sep_BN, sides.keys.is_punct_BN
        is_any_BK = torch.ones_like(is_sep_BK)
        is_first_BK = torch.zeros_like(is_sep_BK)
        is_first_BK[:, 0] = True
        return cls(
            torch.stack([is_sep_BK, is_punct_BK], -1),
            torch.stack([is_any_BK, is_first_BK, is_sep_BK, is_punct_BK], -1),
        )


def _segment_columns(sides: Sides) -> Bool[Tensor, "batch key segment"]:
    """The keys of each segment."""
    segment_BN = sides.segment_BN
    assert segment_BN is not None
    return segment_BN[..., None] == torch.arange(
        int(segment_BN.max()) + 1, device=segment_BN.device
    )


def _sum(numbers_BHN: Tensor, counts_BN: Tensor) -> Float[Tensor, " head"]:
    return (numbers_BHN * counts_BN[:, None]).sum((0, 2))


def value_norms(value_BHKD: Tensor, roots_HDD: Tensor | None) -> Float[Tensor, "batch head key"]:
    """||v W_O^h|| of every key, computed as ||v R^h|| without vectors of the model's width."""
    if roots_HDD is None:
        return value_BHKD.new_full(value_BHKD.shape[:3], torch.nan)
    batch, num_heads, num_keys, head_dim = value_BHKD.shape
    # One product a head, over all keys of the batch: values lie in memory as [batch, key, head]
    value_HRD = value_BHKD.transpose(1, 2).reshape(-1, num_heads, head_dim).transpose(0, 1)
    norm_HR = torch.linalg.vector_norm(value_HRD @ roots_HDD.to(value_BHKD), dim=-1)
    return norm_HR.view(num_heads, batch, num_keys).transpose(0, 1).contiguous()


def peaks(weights: Tensor) -> tuple[Tensor, Tensor]:
    """Largest weight and its first key. With many keys, the largest chunk is found first.

    torch's `max` with an index is not vectorised; `amax` is, and about twelve times faster.
    """
    num_keys = weights.shape[-1]
    if num_keys < 4 * _CHUNK:
        return weights.max(-1)
    whole = num_keys // _CHUNK * _CHUNK
    chunks = weights[..., :whole].unflatten(-1, (-1, _CHUNK))
    peak, chunk = chunks.amax(-1).max(-1)
    index = chunk[..., None, None].expand(*chunk.shape, 1, _CHUNK)
    key = chunk * _CHUNK + chunks.gather(-2, index).squeeze(-2).argmax(-1)
    if whole == num_keys:
        return peak, key
    rest_peak, rest_key = weights[..., whole:].max(-1)
    return torch.maximum(peak, rest_peak), torch.where(rest_peak > peak, rest_key + whole, key)
