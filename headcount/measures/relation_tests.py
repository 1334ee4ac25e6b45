r"""Relation tests: hits on the arcs of each relation, with what a test against the baseline needs.

The *gain* of an arc is whether a head predicts it, minus whether the baseline does: the relation's
most frequent offset in the first half of the corpus. An arc is in the unit of its later word. The
accuracy to beat is that of this offset or of the second half's own best one, whichever is larger.

A head that looks at fixed offsets finds relations, too. Its habit $\rho_h(o)$ is how often it looks
at an offset in words (its own excluded) that exists, and $\sum_o N(o) \rho_h(o) / \sum_o N(o)$ its
accuracy by position alone on a relation with N(o) arcs at offset o. For `head<-dependent`, the
habit is that of columns. For links that name their candidates, offsets and habits are those of
their fields, see `link_fields`.

References: Voita et al. (2019), section 5.2, https://arxiv.org/abs/1905.09418; Clark et al. (2019),
section 4.2, https://arxiv.org/abs/1906.04341
"""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headcount.corpora import NO_HALF, SECOND_HALF, Arcs
from headcount.measures.arcs import REACH
from headcount.measures.link_fields import NUM_DIRECTIONS
from headcount.measures.links import Linked
from headcount.measures.looks import around, far
from headcount.measures.reductions import Attention, Sides
from headcount.measures.sums import Sums
from headcount.measures.units import Groups, Moments, Slots, counts
from headcount.measures.word_sight import WordSight, field_words
from headcount.tap import Reduction

WIDTH = 2 * REACH + 1
COLUMN = 2
"""Place of `head<-dependent` in `DIRECTIONS`."""


@final
@dataclass(frozen=True)
class RelationTests(Sums):
    """Hits and gains by relation and direction, by half of the corpus and by sentence."""

    name = "relation_tests"
    needs = frozenset({Reduction.ARC_HITS, Reduction.WORD_LOOKS})

    hits: Float[Tensor, "half relation head direction"]
    """Number of arcs that each head predicts, in each of `DIRECTIONS`."""
    moments: Moments
    """Moments of the gain over units of the second half, by relation, and by head and direction."""
    baseline: Int[Tensor, "half relation"]
    """Number of arcs that the baseline predicts."""
    offsets: Int[Tensor, "half relation offset"]
    """Number of arcs at each offset head - dependent up to `REACH`, then below and above."""
    looks: Int[Tensor, "head side bin"]
    """Number of words that look most at the word at each offset, and farther away (the last): of
    rows and of columns, then in the fields of each kind of links by direction."""
    words: Int[Tensor, "side offset"]
    """Number of words that have a word at each offset; then, of pairs farther before and after that
    can look at each other: on the sides of `looks`."""
    further: Int[Tensor, "half relation"]
    """Number of further keys of links that have several, see `links`."""
    seen: Int[Tensor, "half relation 2"]
    """Number of arcs of which the dependent sees the head, and the head the dependent."""

    @classmethod
    def applies(cls, attention: Attention) -> bool:
        """Whether there are trees over words that attend to each other."""
        return attention.arcs is not None

    @classmethod
    def of(cls, attention: Attention) -> "RelationTests":
        """The sums over one batch."""
        arcs, hits_AHD, shared = attention.arcs, attention.arc_hits_AHD, attention.sides.once(_of)
        assert arcs is not None and hits_AHD is not None
        hits_LHD, shape = attention.sides.once(Linked.of).any(hits_AHD).double(), hits_AHD.shape[1:]
        hits = hits_LHD.new_zeros(3 * arcs.num_relations, *shape)
        hits.index_add_(0, shared.bin_L, hits_LHD)
        second_S = shared.second_S
        gain_SHD = hits_LHD[second_S] - shared.is_baseline_L[second_S].double()[:, None, None]
        gain_GC = hits_LHD.new_zeros(len(shared.groups.kind_G), shape.numel())
        gain_GC.index_add_(0, shared.group_S, gain_SHD.flatten(1))
        return cls(
            hits.view(3, arcs.num_relations, *shape)[:2],
            Moments.of_groups(gain_GC, shared.groups, attention.sides.once(Slots.of)),
            shared.baseline,
            shared.offsets,
            attention.word_looks_HSO,
            shared.words,
            shared.further,
            shared.seen,
        )

    @property
    def cases(self) -> Int[Tensor, "half relation"]:
        """Number of arcs or links of each relation in each half."""
        return self.offsets.sum(-1) - self.further

    def habit(self, relation: int, direction: int) -> tuple[Tensor, Tensor]:
        """Where words look that may be an arc's, [head, bin], and how many could look there.

        Args:
            relation: index of the relation.
            direction: index into `DIRECTIONS`.
        """
        num_narrowed = (len(self.words) - 2) // NUM_DIRECTIONS
        kind = relation - (self.hits.shape[1] - num_narrowed)
        side = int(direction == COLUMN) if kind < 0 else 2 + NUM_DIRECTIONS * kind + direction
        return self.looks[:, side], self.words[side]

    def seen_share(self, relation: int, direction: int) -> float:
        """Share of the second half's arcs or links of which a word sees the other, or some key."""
        seen = int(self.seen[1, relation, int(direction > 0)])
        return seen / max(int(self.cases[1, relation]), 1)

    def moments_of(self, direction: int) -> Moments:
        """The moments of one direction, by relation and head."""
        return self.moments.of_columns(slice(direction, None, self.hits.shape[-1]))


@final
@dataclass(frozen=True, eq=False)
class _Arcs:
    """What the trees and links of a batch say, whatever heads do."""

    second_S: Int[Tensor, " second_link"]
    """Index of each link of the second half; of an arc without a link, too."""
    bin_L: Int[Tensor, " link"]
    """Half (the third is neither) and relation of each link, in one number."""
    is_baseline_L: Bool[Tensor, " link"]
    """Whether the baseline predicts each link."""
    group_S: Int[Tensor, " second_link"]
    """Index of the group of each of these."""
    groups: Groups
    """The links of one relation in one unit of the second half."""
    baseline: Int[Tensor, "half relation"]
    offsets: Int[Tensor, "half relation offset"]
    words: Int[Tensor, "side offset"]
    further: Int[Tensor, "half relation"]
    seen: Int[Tensor, "half relation 2"]


def _of(sides: Sides) -> _Arcs:
    """The arcs of one batch."""
    arcs = sides.arcs
    assert arcs is not None
    num_relations, linked = arcs.num_relations, sides.once(Linked.of)
    half_L, unit_L = _halves_of_links(sides, arcs)
    is_second_L = half_L == SECOND_HALF
    bin_L = torch.where(half_L == NO_HALF, 2, half_L) * num_relations + linked.relation_L
    slot_S = torch.searchsorted(sides.once(Slots.of).unit_U, unit_L[is_second_L])
    key_S = slot_S * num_relations + linked.relation_L[is_second_L]
    key_G, group_S, size_G = key_S.unique(return_inverse=True, return_counts=True)
    slot_G, relation_G = key_G // max(num_relations, 1), key_G % max(num_relations, 1)
    is_baseline_L, baseline = linked.any(arcs.is_baseline_A), bin_L.new_zeros(3 * num_relations)
    baseline.index_add_(0, bin_L, is_baseline_L.long())
    bin_A = bin_L if linked.link_A is None else bin_L[linked.link_A]
    return _Arcs(
        is_second_L.nonzero()[:, 0],
        bin_L,
        is_baseline_L,
        group_S,
        Groups(slot_G, relation_G, size_G, num_relations),
        baseline.view(3, -1)[:2],
        _offsets(arcs, bin_A),
        torch.cat([_words(sides), field_words(arcs, REACH, sides.once(WordSight.of))]),
        linked.further(bin_A, 3 * num_relations).view(3, -1)[:2],
        _seen(sides, arcs, bin_L),
    )


def _seen(sides: Sides, arcs: Arcs, bin_L: Int[Tensor, " link"]) -> Int[Tensor, "half relation 2"]:
    """Number of links of which a query sees some key, and some key the query."""
    sight, linked = sides.once(WordSight.of), sides.once(Linked.of)
    ends = arcs.dependent_A, arcs.head_A
    sees_A2 = torch.stack([sight.sees(arcs.sentence_A, *each) for each in (ends, ends[::-1])], 1)
    found = bin_L.new_zeros(3 * arcs.num_relations, 2)
    found.index_add_(0, bin_L, linked.any(sees_A2).long())
    return found.view(3, arcs.num_relations, 2)[:2]


def _halves_of_links(sides: Sides, arcs: Arcs) -> tuple[Int[Tensor, " link"], Int[Tensor, " link"]]:
    """Half of each link, that of its last word, and its unit if this is the second half."""
    keys, linked = sides.keys, sides.once(Linked.of)
    num_words = max(1, int(keys.word_BN.max()) + 1)
    last_L = linked.largest(torch.maximum(arcs.dependent_A, arcs.head_A))
    sentence_L = linked.largest(arcs.sentence_A)
    found = []
    for number_BN in (keys.half_BN, keys.unit_BN.masked_fill(keys.half_BN != SECOND_HALF, NO_HALF)):
        # Tokens without a word are in the first column
        of_BW = number_BN.new_full((len(number_BN), num_words + 1), NO_HALF)
        of_BW = of_BW.scatter_reduce(1, keys.word_BN + 1, number_BN, "amax")
        found.append(of_BW[sentence_L, last_L + 1])
    return found[0], found[1]


def _offsets(arcs: Arcs, half_A: Tensor) -> Int[Tensor, "half relation offset"]:
    bin_A = (arcs.offset_A + REACH).clamp(-1, WIDTH)
    bin_A = torch.where(bin_A < 0, WIDTH, bin_A + (bin_A == WIDTH))
    size = 3 * arcs.num_relations * (WIDTH + 2)
    found = counts(half_A * (WIDTH + 2) + bin_A, size)
    return found.view(3, arcs.num_relations, WIDTH + 2)[:2]


def _words(sides: Sides) -> Int[Tensor, "side offset"]:
    """Number of words with a word at each offset, and of pairs farther before and after, by side.

    In a causal model a word looks at earlier ones, and its column is looked at from later ones.
    Relations between any words are not known beside pictures, where a word may see later ones.
    """
    word_BN = sides.keys.word_BN
    num_words = max(1, int(word_BN.max()) + 1)
    # Tokens without a word are in the first column
    none_BW = torch.zeros(len(word_BN), num_words + 1, dtype=torch.bool, device=word_BN.device)
    is_word_BW = none_BW.scatter(1, word_BN + 1, True)[:, 1:]
    is_query_BW = is_word_BW
    if sides.with_context is not None:
        measured_BN = word_BN.masked_fill(~sides.queries.is_token_BN, -1)
        is_query_BW = none_BW.scatter(1, measured_BN + 1, True)[:, 1:]
    near_BWO = around(is_word_BW, num_words, REACH, False) & is_query_BW[..., None]
    near_O = near_BWO.sum((0, 1))
    near_O[REACH] = 0  # the word itself
    far_BW2 = far(is_word_BW, num_words, REACH, False) * is_query_BW[..., None]
    found_O = torch.cat([near_O, far_BW2.sum((0, 1))])
    row_O, column_O = found_O.clone(), found_O.clone()
    if sides.is_causal:
        row_O[-1] = column_O[-2] = 0
    return torch.stack([row_O, column_O])
