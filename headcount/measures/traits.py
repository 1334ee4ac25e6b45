r"""Traits: how much of a head goes to a class of keys, with what a test of it needs.

Five classes of keys: the first token, separators, punctuation, the query's own segment (weights),
and the two rarest content tokens that the query sees (whether the largest weight on a content key
is on one of them). For a query q that sees $n_q$ keys, $m_q$ of them in the class, a head that
looks at no key in particular has $m_q / n_q$ there.

A query that sees no key of the class, or no other key, is no case: it says nothing of a head. So
that a head is not counted for what another trait explains, some others are none either:

- in causal models, the first `EARLY` queries;
- first token: its neighbour, and queries of which it is one of the two rarest tokens (see
  `corpora/halves.py`);
- separators: queries beside one;
- punctuation: texts that begin with it;
- own segment: texts of one segment;
- rare tokens: where the first token or the first content token is one of the two, and where fewer
  than three tokens can be seen; a rare token is outside the corpus's 500 most frequent ones.

A head that looks at neighbours finds its own segment, and punctuation, too. What position alone
gives it is the sum over the class of its mean weight at offsets -2 ... 2 and of its mean weight
on a key farther away; for rare tokens, of its habit by offset (`looks`).

References: sinks and punctuation: Clark et al. (2019), section 3.2, https://arxiv.org/abs/1906.04341;
    own segment: Kovaleva et al. (2019), section 4.1, https://arxiv.org/abs/1908.08593; rare tokens:
    Voita et al. (2019), section 5.3, https://arxiv.org/abs/1905.09418
Departure: the papers count all queries, and rare tokens that a query can't see, as misses.
"""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headcount.corpora import first_cases, rarest_so_far
from headcount.measures.class_weights import ClassSums, Counted, Seen, is_late
from headcount.measures.key_classes import Trait
from headcount.measures.looks import REACH, around, later, num_visible
from headcount.measures.reductions import OFFSETS, Attention, Sides
from headcount.measures.sums import over_queries
from headcount.measures.units import Slots, counts
from headcount.tap import Reduction

NEAR = max(OFFSETS)
"""Largest offset whose weights are counted on their own."""


@final
class First(Trait):
    """The first token."""

    name = "first"

    def members(self, sides: Sides) -> Bool[Tensor, "batch key"]:
        """The first key."""
        is_first_BK = torch.zeros_like(sides.keys.is_token_BN)
        is_first_BK[:, 0] = sides.keys.is_token_BN[:, 0]
        return is_first_BK

    def cases(self, sides: Sides) -> Bool[Tensor, "batch query"]:
        """Queries that are no neighbour, and of which it is not one of the two rarest tokens."""
        rarest_BQ2 = sides.once(rarest_visible)
        return first_cases(rarest_BQ2, sides.is_causal, sides.is_self)


@final
class Separators(Trait):
    """Separators."""

    name = "separator"

    def members(self, sides: Sides) -> Bool[Tensor, "batch key"]:
        """The separators."""
        return sides.keys.is_sep_BN

    def cases(self, sides: Sides) -> Bool[Tensor, "batch query"]:
        """Queries that are not beside one."""
        num_queries = sides.queries.ids_BN.shape[1]
        seen = (num_queries, 1, sides.is_causal, sides.last_BQ)
        beside_BQ = around(sides.keys.is_sep_BN, *seen).any(-1)
        return ~(beside_BQ & sides.is_self)


@final
class Punctuation(Trait):
    """Punctuation marks."""

    name = "punctuation"

    def members(self, sides: Sides) -> Bool[Tensor, "batch key"]:
        """The punctuation marks."""
        return sides.keys.is_punct_BN

    def cases(self, sides: Sides) -> Bool[Tensor, "batch query"]:
        """Queries in texts that do not begin with one."""
        return ~sides.keys.is_punct_BN[:, :1].expand(-1, sides.queries.ids_BN.shape[1])


@final
class OwnSegment(Trait):
    """The query's own segment."""

    name = "segment"

    def keys(self, sides: Sides, rows: slice, queries: slice) -> Bool[Tensor, "row query key"]:
        """The keys of the query's segment, in texts of several."""
        segment_BN = sides.segment_BN
        if segment_BN is None:
            is_query_BQ, is_key_BK = sides.queries.is_token_BN[rows], sides.keys.is_token_BN[rows]
            return (is_query_BQ[:, queries, None] & is_key_BK[:, None]).zero_()
        own_BQK = segment_BN[rows, queries, None] == segment_BN[rows, None]
        return own_BQK & (segment_BN[rows].amax(1) > 0)[:, None, None]


CLASSES: tuple[Trait, ...] = (First(), Separators(), Punctuation(), OwnSegment())
"""The classes whose weights are summed."""
TRAITS = (*(each.name for each in CLASSES), "rare")
"""The traits, in the order of the sums."""


@final
@dataclass(frozen=True)
class Traits(ClassSums):
    """Weight on classes of keys, by half of the corpus and by unit, and chance's share."""

    name = "traits"
    needs = frozenset(
        {
            Reduction.FIRST,
            Reduction.MASS,
            Reduction.OWN_SEGMENT,
            Reduction.PEAK_LATER,
            Reduction.DIAGONALS,
        }
    )

    rare_offsets: Int[Tensor, "half offset"]
    """Number of rare tokens at each offset up to `looks.REACH`, then farther before and after."""
    queries: Int[Tensor, ""]
    """Number of all queries."""

    @classmethod
    def of(cls, attention: Attention) -> "Traits":
        """The sums over one batch."""
        sides = attention.sides
        shared, slots = sides.once(_Cases.of), sides.once(Slots.of)
        key_BHQ = attention.peak_later_BHQ
        rarest_B1Q, second_B1Q = shared.rarest_BQ2[:, None].unbind(-1)
        own_BHQ = attention.own_segment_BHQ
        weights = [
            attention.first_BHQ,
            *attention.masses_BHQM.unbind(-1),
            torch.zeros_like(attention.first_BHQ) if own_BHQ is None else own_BHQ,
            (key_BHQ == rarest_B1Q) | (key_BHQ == second_B1Q),
        ]
        is_query_BQ = sides.queries.is_token_BN
        return cls.made(
            torch.stack(weights),
            shared.counted,
            slots,
            over_queries(attention.diagonals_BHQO, is_query_BQ),
            rare_offsets=shared.rare_offsets,
            queries=is_query_BQ.sum(),
        )


@final
@dataclass(frozen=True, eq=False)
class _Cases:
    """What the tokens of a batch say, whatever heads do."""

    counted: Counted
    rarest_BQ2: Int[Tensor, "batch query 2"]
    rare_offsets: Int[Tensor, "half offset"]

    @classmethod
    def of(cls, sides: Sides) -> "_Cases":
        """The cases of one batch."""
        rarest_BQ2 = sides.once(rarest_visible)
        visible_BQ, near_BQO = _seen(sides.keys.is_token_BN, sides)
        alike = [_seen(each.members(sides), sides) for each in CLASSES[:-1]]
        size, near = zip(*alike, _own_segment(sides), strict=True)
        can_be_TBQ = is_late(sides) & torch.stack([each.cases(sides) for each in CLASSES])
        classes = Seen.of(can_be_TBQ, torch.stack(size), torch.stack(near), visible_BQ)
        seen = Seen.joined((classes, _rare(rarest_BQ2, near_BQO, sides)), 0)
        rare_offsets = _rare_offsets(rarest_BQ2, seen.is_case_TBQ[-1], sides.queries.is_half_2BN)
        return cls(seen.counted(sides, near_BQO, visible_BQ), rarest_BQ2, rare_offsets)


def _seen(is_key_BK: Tensor, sides: Sides) -> tuple[Tensor, Tensor]:
    """Number of keys of some kind that each query sees, and which of `OFFSETS` have one."""
    num_queries = sides.queries.ids_BN.shape[1]
    near_BQO = around(is_key_BK, num_queries, NEAR, sides.is_causal, sides.last_BQ)
    return num_visible(is_key_BK, sides).clamp_min(0), near_BQO


def _own_segment(sides: Sides) -> tuple[Tensor, Tensor]:
    """The keys of `OwnSegment`, as `_seen` by each query, without pairs of tokens."""
    segment_BN = sides.segment_BN
    num_seen, near_BQO = _seen(sides.keys.is_token_BN, sides)
    size_BQ, own_BQO = torch.zeros_like(num_seen), torch.zeros_like(near_BQO)
    if segment_BN is None:
        return size_BQ, own_BQO
    for number in range(int(segment_BN.max()) + 1):
        is_in_BN = (segment_BN == number) & sides.keys.is_token_BN
        size, near = _seen(is_in_BN, sides)
        size_BQ, own_BQO = size_BQ + size * is_in_BN, own_BQO | near & is_in_BN[..., None]
    has_two_B1 = segment_BN.amax(1, keepdim=True) > 0
    return size_BQ * has_two_B1, own_BQO & has_two_B1[..., None]


def _rare(rarest_BQ2: Tensor, near_BQO: Tensor, sides: Sides) -> Seen:
    """What each query sees of rare tokens, whose null of position is that of `_rare_offsets`."""
    keys = sides.keys
    content_BQ = num_visible(later(sides), sides)
    first_content_B1 = keys.is_content_BN.long().argmax(1)[:, None]
    has_rare_BQ = (rarest_BQ2 >= 0).all(-1) & sides.queries.is_content_BN & (content_BQ > 2)
    is_first_BQ2 = (rarest_BQ2 == 0) | (rarest_BQ2 == first_content_B1[..., None])
    is_case_BQ = is_late(sides) & has_rare_BQ & ~is_first_BQ2.any(-1)
    return Seen(
        is_case_BQ[None],
        (2 / content_BQ.clamp_min(1)).double()[None],
        torch.zeros_like(near_BQO)[None],
        torch.zeros_like(content_BQ)[None],
    )


def rarest_visible(sides: Sides) -> Int[Tensor, "batch query 2"]:
    """Positions of the two rarest content tokens that each query sees; -1 as in `rarest_B2`."""
    keys, num_queries = sides.keys, sides.queries.ids_BN.shape[1]
    if not sides.is_causal:
        return keys.rarest_B2[:, None].expand(-1, num_queries, -1)
    rarest_BN2 = rarest_so_far(keys.count_BN, keys.is_content_BN, keys.is_rare_BN)
    if sides.last_BQ is None:
        return rarest_BN2
    return rarest_BN2.gather(1, sides.last_BQ[..., None].expand(-1, -1, 2))


def _rare_offsets(
    rarest_BQ2: Tensor, is_case_BQ: Tensor, is_half_2BQ: Tensor
) -> Int[Tensor, "half offset"]:
    """Number of rare tokens at each offset from the cases, by half."""
    position_Q1 = torch.arange(rarest_BQ2.shape[1], device=rarest_BQ2.device)[:, None]
    offset_BQ2 = rarest_BQ2 - position_Q1
    bin_BQ2 = (offset_BQ2 + REACH).clamp(-1, 2 * REACH + 1)
    bin_BQ2 = torch.where(bin_BQ2 < 0, 2 * REACH + 1, bin_BQ2 + (bin_BQ2 > 2 * REACH))
    others, by_half = 2 * REACH + 3, []
    for is_half_BQ in is_half_2BQ:
        is_counted_BQ1 = (is_case_BQ & is_half_BQ)[..., None]
        by_half.append(counts(bin_BQ2.where(is_counted_BQ1, others), others + 1)[:others])
    return torch.stack(by_half)
