r"""Relation tests: hits on the arcs of each relation, with what a test against the baseline needs.

The *gain* of an arc is whether a head predicts it, minus whether the baseline does: the relation's
most frequent offset in the first half of the corpus. A sentence is one unit. The accuracy to beat
is that of this offset or of the second half's own best one, whichever is larger.

A head that looks at fixed offsets finds relations, too. Its habit $\rho_h(o)$ is how often it looks
at an offset in words (its own excluded) that exists, and $\sum_o N(o) \rho_h(o) / \sum_o N(o)$ its
accuracy by position alone on a relation with N(o) arcs at offset o. For `head<-dependent`, the
habit is that of columns.

References: Voita et al. (2019), section 5.2, https://arxiv.org/abs/1905.09418; Clark et al. (2019),
section 4.2, https://arxiv.org/abs/1906.04341
"""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headcount.corpora import Arcs
from headcount.measures.arcs import REACH
from headcount.measures.reductions import Attention, Reduction, Sides
from headcount.measures.sums import Sums
from headcount.measures.visibility import around, far

WIDTH = 2 * REACH + 1


@final
@dataclass(frozen=True)
class RelationTests(Sums):
    """Hits and gains by relation and direction, by half of the corpus and by sentence."""

    columns = ()
    needs = frozenset({Reduction.ARC_HITS, Reduction.WORD_LOOKS})

    hits: Float[Tensor, "half relation head direction"]
    """Number of arcs that each head predicts, in each of `DIRECTIONS`."""
    squares: Float[Tensor, "relation head direction"]
    """Sum over sentences of the second half of the gain squared."""
    products: Float[Tensor, "relation head direction"]
    """Sum over sentences of the second half of the gain times the number of arcs."""
    baseline: Int[Tensor, "half relation"]
    """Number of arcs that the baseline predicts."""
    offsets: Int[Tensor, "half relation offset"]
    """Number of arcs at each offset head - dependent up to `REACH`, then below and above."""
    cases_squares: Int[Tensor, " relation"]
    """Sum over sentences of the second half of the number of arcs squared."""
    units: Int[Tensor, " relation"]
    """Number of sentences of the second half with arcs."""
    looks: Int[Tensor, "head side bin"]
    """Number of words that look most at the word at each offset, and farther away (the last)."""
    words: Int[Tensor, " offset"]
    """Number of words that have a word at each offset; then, of pairs farther before and after."""

    @classmethod
    def applies(cls, attention: Attention) -> bool:
        """Whether there are trees over words that attend to each other."""
        return attention.arcs is not None

    @classmethod
    def of(cls, attention: Attention) -> "RelationTests":
        """The sums over one batch."""
        arcs, hits_AHD, shared = attention.arcs, attention.arc_hits_AHD, attention.sides.once(_of)
        assert arcs is not None and hits_AHD is not None
        hits_AHD = hits_AHD.double()
        shape = hits_AHD.shape[1:]
        half_A = shared.is_second_A.long()
        hits = hits_AHD.new_zeros(2 * arcs.num_relations, *shape)
        hits.index_add_(0, half_A * arcs.num_relations + arcs.relation_A, hits_AHD)
        gain_GHD = hits_AHD.new_zeros(len(shared.relation_G), *shape)
        second_A = shared.is_second_A
        gain_AHD = hits_AHD[second_A] - arcs.is_baseline_A[second_A].double()[:, None, None]
        gain_GHD.index_add_(0, shared.group_A, gain_AHD)
        zeros = hits_AHD.new_zeros(arcs.num_relations, *shape)
        size_G11 = shared.size_G[:, None, None]
        return cls(
            hits.view(2, arcs.num_relations, *shape),
            zeros.index_add(0, shared.relation_G, gain_GHD**2),
            zeros.index_add(0, shared.relation_G, gain_GHD * size_G11),
            *shared.counts,
            attention.word_looks_HSO,
            shared.words,
        )

    def value(self) -> dict[str, Float[Tensor, " head"]]:
        """Nothing for the head table: see `analysis/profiles.py`."""
        return {}


@final
@dataclass(frozen=True, eq=False)
class _Groups:
    """The arcs of one relation in one sentence of the second half, G, whatever heads do."""

    is_second_A: Bool[Tensor, " arc"]
    group_A: Int[Tensor, " second_arc"]
    """Index of the group of each arc of the second half."""
    relation_G: Int[Tensor, " group"]
    size_G: Int[Tensor, " group"]
    """Number of arcs."""
    counts: tuple[Tensor, Tensor, Tensor, Tensor]
    """`baseline`, `offsets`, `cases_squares` and `units` of `RelationTests`."""
    words: Int[Tensor, " offset"]


def _of(sides: Sides) -> _Groups:
    """The groups of one batch."""
    arcs = sides.arcs
    assert arcs is not None
    num_relations = arcs.num_relations
    is_second_A = sides.keys.is_second_BN[arcs.sentence_A, 0]
    key_A = (arcs.sentence_A * num_relations + arcs.relation_A)[is_second_A]
    key_G, group_A, size_G = key_A.unique(return_inverse=True, return_counts=True)
    relation_G = key_G % max(num_relations, 1)
    half_A = is_second_A.long() * num_relations + arcs.relation_A
    zeros = half_A.new_zeros
    baseline = zeros(2 * num_relations).index_add_(0, half_A, arcs.is_baseline_A.long())
    cases_squares = zeros(num_relations).index_add_(0, relation_G, size_G**2)
    return _Groups(
        is_second_A,
        group_A,
        relation_G,
        size_G,
        (
            baseline.view(2, -1),
            _offsets(arcs, half_A),
            cases_squares,
            torch.bincount(relation_G, minlength=num_relations),
        ),
        _words(sides),
    )


def _offsets(arcs: Arcs, half_A: Tensor) -> Int[Tensor, "half relation offset"]:
    bin_A = (arcs.head_A - arcs.dependent_A + REACH).clamp(-1, WIDTH)
    bin_A = torch.where(bin_A < 0, WIDTH, bin_A + (bin_A == WIDTH))
    size = 2 * arcs.num_relations * (WIDTH + 2)
    counts = torch.bincount(half_A * (WIDTH + 2) + bin_A, minlength=size)
    return counts.view(2, arcs.num_relations, WIDTH + 2)


def _words(sides: Sides) -> Int[Tensor, " offset"]:
    """Number of words with a word at each offset, and of pairs farther before and after."""
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
    return torch.cat([near_O, far_BW2.sum((0, 1))])
