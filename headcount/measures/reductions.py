"""Attention: one layer on one batch, reduced to what measures need, without full attention maps.

Every quantity is a reduction over keys (or queries) of the weights A, computed block by block as
the tap delivers them. Its size is batch x heads x tokens, never tokens x tokens. The exception is
the word-level maps of treebank sentences, which are tokens squared and live until the layer ends.
"""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from headcount.core import SITES, ModelError
from headcount.corpora import Arcs, Tokens
from headcount.tap import AttentionLayer, Block

OFFSETS = (-2, -1, 0, 1, 2)
"""Diagonals whose weights are recorded, as key minus query."""

MASSES = ("sep", "punct", "norm", "norm_first", "norm_sep", "norm_punct")
"""Columns beside the values: sums of weights (or of weights times value norms) by key class."""

_CHUNK = 64
"""Number of keys per chunk in the search for the largest of many weights."""


@final
@dataclass(frozen=True)
class Attention:
    """One layer's attention over one batch: B sentences, H heads, Q queries, K keys."""

    layer: AttentionLayer
    queries: Tokens
    keys: Tokens
    arcs: Arcs | None
    peak_BHQ: Float[Tensor, "batch head query"]
    """Largest weight on a content key."""
    peak_key_BHQ: Int64[Tensor, "batch head query"]
    """The content key with the largest weight; the earliest in a tie."""
    peak_special_BHQ: Float[Tensor, "batch head query"]
    """Largest weight on a special key."""
    entropy_BHQ: Float[Tensor, "batch head query"]
    """-sum A ln A over all keys, in nats."""
    diagonals_BHQO: Float[Tensor, "batch head query offset"]
    """Weight on the key at query + offset, for each of `OFFSETS`; 0 if there is no such key."""
    first_BHQ: Float[Tensor, "batch head query"]
    """Weight on the first token."""
    masses_BHQC: Float[Tensor, "batch head query mass"]
    """Weight on each class of keys, in the order of `MASSES`."""
    own_segment_BHQ: Float[Tensor, "batch head query"] | None
    """Weight on the query's own segment, separators included; None if no row has two segments."""
    segment_BN: Int64[Tensor, "batch token"] | None
    """Segment number of each token, increasing, possibly with gaps; None if no row has two."""
    column_BHK: Float[Tensor, "batch head key"]
    """Sum over the (non-padding) queries of the weight on each key."""
    value_norm_BHK: Float[Tensor, "batch head key"]
    """||f(x_j)|| = ||v_j W_O^h||; NaN if no output projection was found."""
    word_keys_BHW: Int64[Tensor, "batch head word"] | None
    """The other word each word attends to most, -1 if it sees none."""
    word_queries_BHW: Int64[Tensor, "batch head word"] | None
    """The other word that attends most to each word, -1 if none sees it."""

    def mass(self, name: str) -> Float[Tensor, "batch head query"]:
        """Weight on one class of keys, by its name in `MASSES`."""
        return self.masses_BHQC[..., MASSES.index(name)]


@final
class AttentionReducer:
    """Builds the `Attention` of one layer call from the tap's blocks.

    Args:
        layer: the layer.
        queries: the tokens that attend.
        keys: the tokens attended to.
        arcs: dependency arcs over the words, if sentences have trees and attend to themselves.
        roots_HDD: for every head, R with R R^T = W_O W_O^T, so that ||v W_O|| = ||v R||; None if
            unknown.
        value_BHKD: the values, with key/value heads repeated.
    """

    def __init__(
        self,
        layer: AttentionLayer,
        queries: Tokens,
        keys: Tokens,
        arcs: Arcs | None,
        roots_HDD: Tensor | None,
        value_BHKD: Tensor,
    ) -> None:
        self.layer, self.queries, self.keys, self.arcs = layer, queries, keys, arcs
        batch, num_heads, num_keys, _ = value_BHKD.shape
        per_query = (batch, num_heads, queries.ids_BN.shape[1])
        empty = value_BHKD.new_empty
        self.peak_BHQ, self.entropy_BHQ, self.first_BHQ = (empty(per_query) for _ in range(3))
        self.peak_key_BHQ = empty(per_query, dtype=torch.long)
        self.peak_special_BHQ = value_BHKD.new_zeros(per_query)
        self.diagonals_OBHQ = value_BHKD.new_zeros(len(OFFSETS), *per_query)
        self.column_BHK = value_BHKD.new_zeros(batch, num_heads, num_keys)
        self.knows_norms = roots_HDD is not None
        self.value_norm_BHK = _value_norms(value_BHKD, roots_HDD)
        self.is_query_BQ = queries.is_token_BN.to(value_BHKD.dtype)
        self._hidden: tuple[slice, tuple[Tensor, ...]] | None = None
        self.segment_BN = segments(keys) if queries is keys else None
        self.columns_BHKC = self._columns()
        self.masses_BHQC = empty(*per_query, self.columns_BHKC.shape[-1])
        words = (queries.word_BN, keys.word_BN, num_heads, value_BHKD.dtype)
        self.words = None if arcs is None else GroupedMap(*words)

    def _columns(self) -> Float[Tensor, "batch head key mass"]:
        """The columns whose products with the weights are `MASSES`, then one column per segment."""
        keys, norm = self.keys, self.value_norm_BHK
        sep, punct = (
            is_BK[:, None].expand_as(norm) for is_BK in (keys.is_sep_BN, keys.is_punct_BN)
        )
        norm_first = torch.zeros_like(norm)
        norm_first[..., 0] = norm[..., 0]
        columns = [sep, punct, norm, norm_first, norm * sep, norm * punct]
        if self.segment_BN is not None:
            numbers = range(int(self.segment_BN.max()) + 1)
            columns += [(self.segment_BN == n)[:, None].expand_as(norm) for n in numbers]
        return torch.stack([column.to(norm.dtype) for column in columns], -1)

    def block(self, block: Block) -> None:
        """Reduce one block; the last step overwrites its weights."""
        weights, place = block.weights_BHQK, (block.rows, block.heads, block.queries)
        self.masses_BHQC[place] = block.masses_BHQC
        self.first_BHQ[place] = weights[..., 0]
        self._diagonals(block)
        is_query = self.is_query_BQ[block.rows, None, None, block.queries]
        self.column_BHK[block.rows, block.heads] += (is_query @ weights).squeeze(-2)
        logs = weights.clamp_min(torch.finfo(weights.dtype).tiny).log_()
        self.entropy_BHQ[place] = -logs.mul_(weights).sum(-1)
        if self.words is not None:
            self.words.block(block)
        self.peak_BHQ[place], self.peak_key_BHQ[place] = peaks(self._content_only(block))

    def _diagonals(self, block: Block) -> None:
        start, num_queries = block.queries.start, block.weights_BHQK.shape[2]
        for o, offset in enumerate(OFFSETS):
            diagonal = block.weights_BHQK.diagonal(start + offset, dim1=-2, dim2=-1)
            first = max(0, -(start + offset))  # first query of the block that has such a key
            into = slice(
                start + first, min(start + num_queries, start + first + diagonal.shape[-1])
            )
            self.diagonals_OBHQ[o, block.rows, block.heads, into] = diagonal

    def _content_only(self, block: Block) -> Tensor:
        """The block without its special keys, after recording their largest weights."""
        weights, (rows, keys) = block.weights_BHQK, self._hidden_keys(block.rows)
        special_NHQ = weights[rows, :, :, keys]
        place = (block.rows, block.heads, block.queries)
        index_NHQ = rows[:, None, None].expand_as(special_NHQ)
        self.peak_special_BHQ[place] = weights.new_zeros(weights.shape[:3]).scatter_reduce(
            0, index_NHQ, special_NHQ, "amax"
        )
        weights[rows, :, :, keys] = -1
        return weights

    def _hidden_keys(self, rows: slice) -> tuple[Tensor, ...]:
        """Special tokens among the keys of some rows, counted from the first; computed once."""
        if self._hidden is None or self._hidden[0] != rows:
            hidden_BK = self.keys.is_token_BN[rows] & ~self.keys.is_content_BN[rows]
            self._hidden = rows, hidden_BK.nonzero(as_tuple=True)
        return self._hidden[1]

    def attention(self) -> Attention:
        """The reductions of the layer, once all blocks have arrived.

        Raises:
            ModelError: if a weight or a value is not finite; names the head.
        """
        self._check_finite()
        num_masses = len(MASSES)
        words = (None, None) if self.words is None else self.words.peaks()
        return Attention(
            self.layer,
            self.queries,
            self.keys,
            self.arcs,
            self.peak_BHQ.clamp_min(0),
            self.peak_key_BHQ,
            self.peak_special_BHQ,
            self.entropy_BHQ,
            self.diagonals_OBHQ.movedim(0, -1),
            self.first_BHQ,
            self.masses_BHQC[..., :num_masses],
            self._own_segment(),
            self.segment_BN,
            self.column_BHK,
            self.value_norm_BHK,
            *words,
        )

    def _own_segment(self) -> Tensor | None:
        if self.segment_BN is None:
            return None
        segments_BHQS = self.masses_BHQC[..., len(MASSES) :]
        own_BHQ1 = self.segment_BN[:, None, :, None].expand(*segments_BHQS.shape[:3], 1)
        return segments_BHQS.gather(-1, own_BHQ1).squeeze(-1)

    def _check_finite(self) -> None:
        broken_H = _not_finite(self.entropy_BHQ, self.queries.is_token_BN)
        if self.knows_norms:
            broken_H |= _not_finite(self.value_norm_BHK, self.keys.is_token_BN)
        if broken_H.any():
            name = f"{SITES[self.layer.site]}.{self.layer.layer}.{int(broken_H.nonzero()[0])}"
            raise ModelError(
                f"Expected finite attention weights and values, got NaN or infinity in head {name} "
                f"({int(broken_H.sum())} of the layer's {len(broken_H)} heads have some). "
                f"Check the parameters of {self.layer.module}, or load the model in float32."
            )


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
        batch, num_query_groups, _ = self.average_BWQ.shape
        shape = (batch, num_heads, num_query_groups, self.member_BKW.shape[-1])
        self.map_BHWW = member_BQW.new_zeros(shape)

    def block(self, block: Block) -> None:
        """Add the contribution of a block's queries."""
        weights, rows = block.weights_BHQK, block.rows
        summed = weights.flatten(1, 2) @ self.member_BKW[rows]
        average = self.average_BWQ[rows, None, :, block.queries]
        self.map_BHWW[rows, block.heads] += average @ summed.view(*weights.shape[:3], -1)

    def peaks(self) -> tuple[Int64[Tensor, "batch head word"], Int64[Tensor, "batch head word"]]:
        """Arg-max of each row and of each column, excluding the own group; -1 if all are 0."""
        self.map_BHWW.diagonal(dim1=-2, dim2=-1).fill_(-1)
        found = (self.map_BHWW.max(dim) for dim in (-1, -2))
        row, column = (key.masked_fill(weight <= 0, -1) for weight, key in found)
        return row, column


def _membership(group_BN: Tensor, dtype: torch.dtype) -> Float[Tensor, "batch token group"]:
    groups = torch.arange(max(1, int(group_BN.max()) + 1), device=group_BN.device)
    return (group_BN[..., None] == groups).to(dtype)


def _not_finite(numbers_BHN: Tensor, counts_BN: Tensor) -> Bool[Tensor, " head"]:
    """Heads with NaN or infinity at a token that counts; a finite sum rules both out quickly."""
    total_H = (numbers_BHN * counts_BN[:, None]).sum((0, 2))
    return ~total_H.isfinite()


def _value_norms(value_BHKD: Tensor, roots_HDD: Tensor | None) -> Float[Tensor, "batch head key"]:
    """||v W_O^h|| of every key, computed as ||v R^h|| without vectors of the model's width."""
    if roots_HDD is None:
        return value_BHKD.new_full(value_BHKD.shape[:3], torch.nan)
    return (value_BHKD @ roots_HDD.to(value_BHKD)).square_().sum(-1).sqrt_()


def segments(tokens: Tokens) -> Int64[Tensor, "batch token"] | None:
    """Segment of each token; None if no row has two segments.

    A segment begins at the first content token after a separator. So a second separator (RoBERTa)
    or a language code (mBART), which follow a sentence as part of it, do not start a segment.
    """
    is_sep_BN = tokens.is_sep_BN.long()
    before_BN = is_sep_BN.cumsum(1) - is_sep_BN
    segment_BN = (before_BN * tokens.is_content_BN).cummax(1).values * tokens.is_token_BN
    return segment_BN if bool(segment_BN.any()) else None


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
