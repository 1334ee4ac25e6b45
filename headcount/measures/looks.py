r"""Looks: at which offset the largest weight is, with what a test of it needs.

For a head h and an offset o, in tokens, the cases are the content queries q from which the token at
q + o can be looked at: it is a content token, q sees it, and it is not the first content token of
the text, which attracts heads wherever they stand. The head hits if, of all content keys but the
first token of the text, it puts its largest weight there. By chance it would with $1 / |K_q|$,
where $K_q$ are these keys as far as q sees them.

So a head that always looks at the token before hits in all cases, however short the texts are,
and its habit $\rho_h(o)$ = hits / cases says how often it looks at an offset that exists. Offsets
beyond `REACH` are counted together.

Reference: positional heads: Analyzing Multi-Head Self-Attention (Voita et al., 2019), section 5.1,
    https://arxiv.org/abs/1905.09418
Departure: the paper counts queries that have no token at the offset, as misses. Where a text
    starts without a special token, its first one takes that one's place as a sink and is left out.

Which keys a query sees, under a causal mask or without one, is found here for other measures, too.
Sliding windows are not considered: keys outside of a window count as seen, and are never hit.
"""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from headcount.measures.reductions import Attention, Sides
from headcount.measures.sums import Sums
from headcount.measures.units import Moments, Slots, counts
from headcount.tap import Reduction

REACH = 32
"""Largest offset, in tokens, that is counted on its own."""
WIDTH = 2 * REACH + 1


@final
@dataclass(frozen=True)
class Looks(Sums):
    """Hits and cases of every offset up to `REACH`, by half of the corpus and by unit."""

    name = "looks"
    needs = frozenset({Reduction.PEAK_LATER})

    hits: Int[Tensor, "half head bin"]
    """Number of cases whose largest weight is at the offset; the last is beyond `REACH`."""
    moments: Moments
    """Moments of hits over units of the second half, by offset and head."""
    cases: Int[Tensor, "half offset"]
    """Number of cases."""
    chance: Float[Tensor, "half offset"]
    """Sum over cases of the chance of a hit."""
    far_pairs: Int[Tensor, "half 2"]
    """Number of pairs of a query and a key it could look at, beyond `REACH` before and after."""
    queries: Int[Tensor, " half"]
    """Number of content queries that see a content key."""

    @classmethod
    def of(cls, attention: Attention) -> "Looks":
        """The sums over one batch."""
        shared = attention.sides.once(_Cases.of)
        slots = attention.sides.once(Slots.of)
        key_BHQ = attention.peak_later_BHQ
        is_target_BHQ = shared.is_target_BK.gather(1, key_BHQ.flatten(1)).view(key_BHQ.shape)
        is_target_BHQ &= shared.is_query_BQ[:, None]
        first_Q = torch.arange(key_BHQ.shape[2], device=key_BHQ.device) - REACH
        bin_BHQ = (key_BHQ - first_Q).clamp_(-1, WIDTH) % (WIDTH + 1)  # -1 is WIDTH, too
        sums = hit_sums(bin_BHQ, is_target_BHQ, shared.cases_SO, slots)
        return cls(*sums, shared.chance, shared.far_pairs, shared.queries)


@final
@dataclass(frozen=True, eq=False)
class _Cases:
    """What the tokens of a batch say, whatever heads do."""

    is_query_BQ: Bool[Tensor, "batch query"]
    is_target_BK: Bool[Tensor, "batch key"]
    cases_SO: Int[Tensor, "slot offset"]
    """Number of cases in each unit of the second half; the last is the first half."""
    chance: Float[Tensor, "half offset"]
    far_pairs: Int[Tensor, "half 2"]
    queries: Int[Tensor, " half"]

    @classmethod
    def of(cls, sides: Sides) -> "_Cases":
        """The cases of one batch."""
        slots, is_target_BK = sides.once(Slots.of), targets(sides)
        visible_BQ = num_visible(later(sides), sides)
        is_query_BQ = sides.queries.is_content_BN & (visible_BQ > 0)
        seen = (is_query_BQ.shape[1], REACH, sides.is_causal, sides.last_BQ)
        is_case_BQO = around(is_target_BK, *seen)
        is_case_BQO &= is_query_BQ[..., None]
        cases_SO, chance = case_sums(is_case_BQO, visible_BQ, slots)
        far_BQ2 = far(is_target_BK, *seen)
        by_half = [is_query_BQ & each for each in sides.queries.is_half_2BN]
        return cls(
            is_query_BQ,
            is_target_BK,
            cases_SO,
            chance,
            torch.stack([(far_BQ2 * each[..., None]).sum((0, 1)) for each in by_half]),
            torch.stack([each.sum() for each in by_half]),
        )


def hit_sums(
    bin_BHQ: Int[Tensor, "batch head query"],
    is_hit_BHQ: Bool[Tensor, "batch head query"],
    cases_SO: Int[Tensor, "slot bin"],
    slots: Slots,
) -> tuple[Tensor, Moments, Tensor]:
    """Hits, their moments over units, and cases, as in `Looks`.

    Args:
        bin_BHQ: what each query looks at; the number after the last bin is for all others.
        is_hit_BHQ: which queries look at something that counts.
        cases_SO: cases of each bin in every unit of the second half, and last in the first half.
        slots: the units.
    """
    num_heads, width = bin_BHQ.shape[1], cases_SO.shape[1]
    first_H1 = (width + 1) * torch.arange(num_heads, device=bin_BHQ.device)[:, None]
    bin_BHQ = bin_BHQ + (slots.slot_BQ[:, None] * (num_heads * (width + 1)) + first_H1)
    num_bins = (slots.num_second + 1) * num_heads * (width + 1)
    # Queries of neither half are in the slot after the last, so all of their bins are
    bin_BHQ = bin_BHQ.clamp_max_(num_bins).masked_fill_(~is_hit_BHQ, num_bins)
    hits_SHO = counts(bin_BHQ, num_bins + 1)[:num_bins].view(-1, num_heads, width + 1)
    second_UHO, cases_UO = hits_SHO[:-1], cases_SO[:-1]
    return (
        torch.stack([hits_SHO[-1], second_UHO.sum(0)]),
        Moments.of(second_UHO[..., :width].transpose(1, 2), cases_UO, slots),
        torch.stack([cases_SO[-1], cases_UO.sum(0)]),
    )


def case_sums(
    is_case_BQO: Bool[Tensor, "batch query bin"], visible_BQ: Tensor, slots: Slots
) -> tuple[Int[Tensor, "slot bin"], Float[Tensor, "half bin"]]:
    """Cases by slot, and by half the sum of the chances of a hit: one key in all that are seen."""
    first = slots.num_second
    cases_SO = is_case_BQO.new_zeros(first + 2, is_case_BQO.shape[2], dtype=torch.long)
    chance_SO = torch.zeros(cases_SO.shape, dtype=torch.float64, device=cases_SO.device)
    slot_N, is_case_NO = slots.slot_BQ.flatten(), is_case_BQO.flatten(0, 1)
    cases_SO.index_add_(0, slot_N, is_case_NO.long())
    chance_N1 = 1 / visible_BQ.clamp_min(1).flatten().double()[:, None]
    chance_SO.index_add_(0, slot_N, is_case_NO * chance_N1)
    return cases_SO[: first + 1], torch.stack([chance_SO[first], chance_SO[:first].sum(0)])


def later(sides: Sides) -> Bool[Tensor, "batch key"]:
    """Content keys but the first token of each text."""
    is_later_BK = sides.keys.is_content_BN.clone()
    is_later_BK[:, 0] = False
    return is_later_BK


def targets(sides: Sides) -> Bool[Tensor, "batch key"]:
    """Content keys but the first of each row."""
    is_content_BK = sides.keys.is_content_BN
    return is_content_BK & (is_content_BK.long().cumsum(1) > 1)


def num_visible(is_key_BK: Bool[Tensor, "batch key"], sides: Sides) -> Int[Tensor, "batch query"]:
    """Number of keys of some kind that each query sees."""
    if sides.last_BQ is not None:
        return is_key_BK.long().cumsum(1).gather(1, sides.last_BQ)
    if sides.is_causal:
        return is_key_BK.long().cumsum(1)
    return is_key_BK.sum(1, keepdim=True).expand(sides.queries.ids_BN.shape)


def around(
    is_key_BK: Bool[Tensor, "batch key"],
    num_queries: int,
    reach: int,
    is_causal: bool,
    last_BQ: Int[Tensor, "batch query"] | None = None,
) -> Bool[Tensor, "batch query offset"]:
    """Whether the key at each offset from -reach to reach is of some kind, and is seen.

    Args:
        is_key_BK: the keys of that kind.
        num_queries: number of queries.
        reach: the largest offset.
        is_causal: whether no later keys are seen.
        last_BQ: the last key that each query sees, if a causal model shows some later ones.
    """
    missing = max(0, num_queries - is_key_BK.shape[1])
    padded_BK = pad(is_key_BK, (reach, reach + missing))
    around_BQO = padded_BK.unfold(1, 2 * reach + 1, 1)[:, :num_queries].clone()
    if last_BQ is not None:
        offset_O = torch.arange(-reach, reach + 1, device=last_BQ.device)
        around_BQO &= offset_O <= _ahead(last_BQ)[..., None]
    elif is_causal:
        around_BQO[..., reach + 1 :] = False
    return around_BQO


def _ahead(last_BQ: Int[Tensor, "batch query"]) -> Int[Tensor, "batch query"]:
    """Number of later keys that each query sees."""
    return last_BQ - torch.arange(last_BQ.shape[1], device=last_BQ.device)


def far(
    is_key_BK: Bool[Tensor, "batch key"],
    num_queries: int,
    reach: int,
    is_causal: bool,
    last_BQ: Int[Tensor, "batch query"] | None = None,
) -> Int[Tensor, "batch query 2"]:
    """Number of keys of some kind more than `reach` before and after each query, as `around`."""
    before_BK = pad(is_key_BK.long().cumsum(1), (1, 0))  # number of keys before each position
    position_Q = torch.arange(num_queries, device=is_key_BK.device)
    last = before_BK.shape[1] - 1
    left_BQ = before_BK[:, (position_Q - reach).clamp(0, last)]
    right_BQ = before_BK[:, -1:] - before_BK[:, (position_Q + reach + 1).clamp_max(last)]
    if last_BQ is not None:
        begin_Q = (position_Q + reach + 1).clamp_max(last)
        right_BQ = (before_BK.gather(1, last_BQ + 1) - before_BK[:, begin_Q]).clamp_min(0)
        is_causal = False
    return torch.stack([left_BQ, torch.zeros_like(right_BQ) if is_causal else right_BQ], -1)
