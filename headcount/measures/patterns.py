r"""Patterns: which of five shapes a head's attention maps have.

For each sentence, with n queries and m keys (including special tokens, excluding padding):

- v: the sum of the two largest column means of the map, as excess over uniform attention,
  $v = (c_1 + c_2 - u) / (1 - u)$ with $u = \min(2, m) / m$ (0 when m <= 2);
- d: the largest mean of a diagonal at offset -2 ... 2 over the queries that have such a key, as
  excess over 1/m;
- b: the mean weight on the query's own segment, as excess over the mean share of keys that are in
  it (0 if there is one segment: a new one begins with the content after a separator, so this needs
  pairs of sentences).

A map is *vertical+diagonal* if v and d are both at least 0.2 and at least 0.4 together, else
*vertical* if v >= 0.4, else *diagonal* if d >= 0.4, else *block* if b >= 0.4, else *heterogeneous*.

Reference: Revealing the Dark Secrets of BERT (Kovaleva et al., 2019), section 4.1, https://arxiv.org/abs/1908.08593
Departure: the paper trained a classifier on 400 hand-labelled maps; neither was released.
"""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headcount.measures.reductions import OFFSETS, Attention, Sides
from headcount.measures.sums import Sums
from headcount.measures.visibility import around
from headcount.tap import Reduction

ALONE = 0.4
"""Excess from which one feature alone determines the pattern."""
BOTH = 0.2
"""Excess that each of v and d needs in vertical+diagonal."""


@final
@dataclass(frozen=True)
class Patterns(Sums):
    """Share of maps (one per sentence) that show each pattern."""

    columns = (
        "pattern_vertical",
        "pattern_diagonal",
        "pattern_vertical_diagonal",
        "pattern_block",
        "pattern_heterogeneous",
    )
    needs = frozenset({Reduction.COLUMN, Reduction.DIAGONALS, Reduction.OWN_SEGMENT})

    maps: Int[Tensor, "head pattern"]
    """Number of maps of each pattern, in the order of `columns`."""
    segmented: Int[Tensor, " head"]
    """Number of maps with two segments, the only ones where blocks can be seen."""
    second: Int[Tensor, "head pattern"]
    """Number of maps of each pattern in the second half of the corpus (see `corpora/halves.py`),
    without maps that are in both halves."""

    @classmethod
    def of(cls, attention: Attention) -> "Patterns":
        """The sums over one batch."""
        is_map_BHP = shows_pattern(attention)
        is_map_BHP &= attention.queries.is_token_BN.any(1)[:, None, None]
        segmented = _is_segmented(attention).sum().expand(is_map_BHP.shape[1])
        in_first_BQ, in_second_BQ = attention.queries.is_half_2BN
        is_second_B = in_second_BQ.any(1) & ~in_first_BQ.any(1)
        return cls(is_map_BHP.sum(0), segmented, (is_map_BHP & is_second_B[:, None, None]).sum(0))

    def value(self) -> dict[str, Float[Tensor, " head"]]:
        """Five shares that add up to 1; the share of blocks is NaN if no map had two segments."""
        shares = self.maps.double() / self.maps.sum(-1, keepdim=True)
        values = dict(zip(self.columns, shares.unbind(-1), strict=True))
        block = values["pattern_block"]
        return values | {"pattern_block": block.masked_fill(self.segmented == 0, torch.nan)}

    def second_block(self) -> Float[Tensor, " head"]:
        """Share of maps that are blocks in the second half of the corpus."""
        return self.second[:, 3].double() / self.second.sum(-1)


def shows_pattern(attention: Attention) -> Bool[Tensor, "batch head pattern"]:
    """Which pattern the map of each sentence and head shows, in the order of `Patterns.columns`."""
    v, d, b = _vertical(attention), _diagonal(attention), _block(attention)
    both = (v >= BOTH) & (d >= BOTH) & (v + d >= ALONE)
    vertical = ~both & (v >= ALONE)
    diagonal = ~both & ~vertical & (d >= ALONE)
    block = ~both & ~vertical & ~diagonal & (b >= ALONE)
    rest = ~(both | vertical | diagonal | block)
    return torch.stack([vertical, diagonal, both, block, rest], -1)


def _lengths(attention: Attention) -> tuple[Tensor, ...]:
    return tuple(side.is_token_BN.sum(1)[:, None] for side in (attention.queries, attention.keys))


def _excess(share: Tensor, chance: Tensor) -> Tensor:
    """Excess of a share over chance, relative to the largest possible excess; 0 if that is 0."""
    return torch.where(chance < 1, (share - chance) / (1 - chance).clamp_min(1e-12), 0)


def _vertical(attention: Attention) -> Float[Tensor, "batch head"]:
    queries_B1, keys_B1 = _lengths(attention)
    columns = attention.column_BHK
    largest, key = columns.max(-1, keepdim=True)
    if columns.shape[-1] > 1:  # two maxima take a third of the time of `topk`
        largest = largest + columns.scatter(-1, key, -1).amax(-1, keepdim=True)
    top = largest.squeeze(-1) / queries_B1
    return _excess(top, keys_B1.clamp_max(2) / keys_B1)


def _diagonal(attention: Attention) -> Float[Tensor, "batch head"]:
    _, keys_B1 = _lengths(attention)
    is_query_BQ = attention.queries.is_token_BN
    diagonals_OBHQ = attention.diagonals_BHQO.movedim(-1, 0)  # as it lies in memory
    summed_BHO = (diagonals_OBHQ * is_query_BQ[:, None]).sum(-1).movedim(0, -1)
    with_key_BO = attention.sides.once(_with_key)
    return _excess((summed_BHO / with_key_BO[:, None]).amax(-1), 1 / keys_B1)


def _with_key(sides: Sides) -> Int[Tensor, "batch offset"]:
    """Number of queries that have a key at each of `OFFSETS`, at least 1."""
    is_query_BQ = sides.queries.is_token_BN
    near_BQO = around(sides.keys.is_token_BN, is_query_BQ.shape[1], max(OFFSETS), False)
    return (near_BQO & is_query_BQ[..., None]).sum(1).clamp_min(1)


def _is_segmented(attention: Attention) -> Bool[Tensor, " batch"]:
    """Sentences with more than one segment."""
    if attention.segment_BN is None:
        return attention.queries.is_token_BN.new_zeros(len(attention.queries.ids_BN))
    return attention.segment_BN.amax(1) > 0


def _block(attention: Attention) -> Float[Tensor, "batch head"]:
    if attention.own_segment_BHQ is None or attention.segment_BN is None:
        return torch.zeros_like(attention.column_BHK[..., 0])
    queries_B1, keys_B1 = _lengths(attention)
    is_query_BN, segment_BN = attention.queries.is_token_BN, attention.segment_BN
    own = attention.own_segment_BHQ.masked_fill(~is_query_BN[:, None], 0).sum(-1) / queries_B1
    empty_BS = is_query_BN.new_zeros(len(segment_BN), int(segment_BN.max()) + 1, dtype=torch.long)
    queries_BS, keys_BS = (
        empty_BS.scatter_add(1, segment_BN, side.is_token_BN.long())
        for side in (attention.queries, attention.keys)
    )
    chance_B1 = (queries_BS * keys_BS).sum(1, keepdim=True) / (queries_B1 * keys_B1)
    return _excess(own, chance_B1)
