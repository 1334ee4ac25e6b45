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

from headcount import numbers
from headcount.measures.looks import around
from headcount.measures.reductions import OFFSETS, Attention, Sides
from headcount.measures.sums import Sums
from headcount.tap import Reduction
from headcount.vocabulary import ColumnEntry

ALONE = 0.4
"""Excess from which one feature alone determines the pattern."""
BOTH = 0.2
"""Excess that each of v and d needs in vertical+diagonal."""


_GROUP = "Pattern of the map"


@final
@dataclass(frozen=True)
class Patterns(Sums):
    """Share of maps (one per sentence) that show each pattern."""

    name = "patterns"
    columns = (
        ColumnEntry(
            "pattern_vertical",
            "vertical",
            _GROUP,
            "share of maps in which a few keys get all the weight",
            numbers.percent,
            "K 4.1",
        ),
        ColumnEntry(
            "pattern_diagonal",
            "diagonal",
            _GROUP,
            "share of maps in which a fixed offset gets the weight",
            numbers.percent,
            "K 4.1",
        ),
        ColumnEntry(
            "pattern_vertical_diagonal",
            "vertical and diagonal",
            _GROUP,
            "share of maps that are both",
            numbers.percent,
            "K 4.1",
        ),
        ColumnEntry(
            "pattern_block",
            "block",
            _GROUP,
            "share of maps whose weight stays inside segments",
            numbers.percent,
            "K 4.1",
        ),
        ColumnEntry(
            "pattern_heterogeneous",
            "heterogeneous",
            _GROUP,
            "share of maps that are none of these",
            numbers.percent,
            "K 4.1",
        ),
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
        facts = attention.sides.once(_Facts.of)
        is_map_BHP = shows_pattern(attention) & facts.has_query_B1[..., None]
        segmented = facts.is_segmented_B.sum().expand(is_map_BHP.shape[1])
        second = (is_map_BHP & facts.is_second_B1[..., None]).sum(0)
        return cls(is_map_BHP.sum(0), segmented, second)

    def value(self) -> dict[str, Float[Tensor, " head"]]:
        """Five shares that add up to 1; the share of blocks is NaN if no map had two segments."""
        shares = self.maps.double() / self.maps.sum(-1, keepdim=True)
        values = dict(zip(self.names(), shares.unbind(-1), strict=True))
        block = values["pattern_block"]
        return values | {"pattern_block": block.masked_fill(self.segmented == 0, torch.nan)}

    def second_block(self) -> Float[Tensor, " head"]:
        """Share of maps that are blocks in the second half of the corpus."""
        return self.second[:, 3].double() / self.second.sum(-1)


def shows_pattern(attention: Attention) -> Bool[Tensor, "batch head pattern"]:
    """Which pattern the map of each sentence and head shows, in the order of `Patterns.columns`."""
    facts = attention.sides.once(_Facts.of)
    share_3BH = torch.stack([_vertical(attention), _diagonal(attention), _block(attention)])
    excess_3BH = (share_3BH - facts.chance_3B1) / facts.room_3B1
    v_and_d_2BH = excess_3BH[:2]
    both = (v_and_d_2BH >= BOTH).all(0) & (v_and_d_2BH.sum(0) >= ALONE)
    vertical, diagonal, block = excess_3BH >= ALONE
    ranked_PBH = torch.stack([both, vertical, diagonal, block, torch.ones_like(both)])
    both, vertical, diagonal, block, rest = ranked_PBH & (ranked_PBH.cumsum(0) == 1)
    return torch.stack([vertical, diagonal, both, block, rest], -1)


@final
@dataclass(frozen=True, eq=False)
class _Facts:
    """What the tokens of a batch say, whatever heads do."""

    num_queries_B1: Int[Tensor, "batch 1"]
    with_key_B1O: Int[Tensor, "batch 1 offset"]
    """Number of queries that have a key at each of `OFFSETS`, at least 1."""
    chance_3B1: Float[Tensor, "3 batch 1"]
    """Share of v, d and b by chance."""
    room_3B1: Float[Tensor, "3 batch 1"]
    """The largest possible excess; infinity if that is 0, so that no share is in excess."""
    has_query_B1: Bool[Tensor, "batch 1"]
    is_segmented_B: Bool[Tensor, " batch"]
    """Sentences with more than one segment."""
    is_second_B1: Bool[Tensor, "batch 1"]
    """Maps in the second half, without those that are in both."""

    @classmethod
    def of(cls, sides: Sides) -> "_Facts":
        """The facts of a batch."""
        queries, keys, segment_BN = sides.queries, sides.keys, sides.segment_BN
        num_queries_B1, num_keys_B1 = (
            side.is_token_BN.sum(1, keepdim=True) for side in (queries, keys)
        )
        near_BQO = around(keys.is_token_BN, queries.ids_BN.shape[1], max(OFFSETS), False)
        with_key_BO = (near_BQO & queries.is_token_BN[..., None]).sum(1).clamp_min(1)
        block_B1, is_segmented_B = torch.ones_like(num_keys_B1), queries.is_token_BN[:, 0] & False
        if segment_BN is not None:
            is_segmented_B = segment_BN.amax(1) > 0
            empty_BS = segment_BN.new_zeros(len(segment_BN), int(segment_BN.max()) + 1)
            queries_BS, keys_BS = (
                empty_BS.scatter_add(1, segment_BN, side.is_token_BN.long())
                for side in (queries, keys)
            )
            pairs_B1 = (queries_BS * keys_BS).sum(1, keepdim=True)
            block_B1 = pairs_B1 / (num_queries_B1 * num_keys_B1)
        chance_3B1 = torch.stack(
            [num_keys_B1.clamp_max(2) / num_keys_B1, 1 / num_keys_B1, block_B1]
        )
        room_3B1 = (1 - chance_3B1).clamp_min(1e-12).where(chance_3B1 < 1, torch.inf)
        in_first_BQ, in_second_BQ = queries.is_half_2BN
        return cls(
            num_queries_B1,
            with_key_BO[:, None],
            chance_3B1,
            room_3B1,
            queries.is_token_BN.any(1, keepdim=True),
            is_segmented_B,
            (in_second_BQ.any(1) & ~in_first_BQ.any(1))[:, None],
        )


def _vertical(attention: Attention) -> Float[Tensor, "batch head"]:
    """The sum of the two largest column means."""
    columns = attention.column_BHK
    largest, key = columns.max(-1, keepdim=True)
    if columns.shape[-1] > 1:  # two maxima take a third of the time of `topk`
        largest = largest + columns.scatter(-1, key, -1).amax(-1, keepdim=True)
    return largest.squeeze(-1) / attention.sides.once(_Facts.of).num_queries_B1


def _diagonal(attention: Attention) -> Float[Tensor, "batch head"]:
    """The largest mean of a diagonal."""
    is_query_BQ = attention.queries.is_token_BN
    diagonals_OBHQ = attention.diagonals_BHQO.movedim(-1, 0)  # as it lies in memory
    summed_BHO = (diagonals_OBHQ * is_query_BQ[:, None]).sum(-1).movedim(0, -1)
    return (summed_BHO / attention.sides.once(_Facts.of).with_key_B1O).amax(-1)


def _block(attention: Attention) -> Float[Tensor, "batch head"]:
    """The mean weight on the query's own segment; 1 if there is one segment."""
    own_BHQ = attention.own_segment_BHQ
    if own_BHQ is None:
        return torch.ones_like(attention.column_BHK[..., 0])
    own_BH = own_BHQ.masked_fill(~attention.queries.is_token_BN[:, None], 0).sum(-1)
    return own_BH / attention.sides.once(_Facts.of).num_queries_B1
