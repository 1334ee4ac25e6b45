r"""Syntactic: how often a head connects a word with its head in the dependency tree.

Word level: keys of a word's pieces are summed, queries averaged; special tokens and the word itself
are excluded. For a dependent d with head h under a relation, an attention head is correct

- `dependent->head`: when the largest weight of d's row is on h;
- `head->dependent`: when the largest weight of h's row is on d (Voita);
- `head<-dependent`: when, of all words, h puts the largest weight on d: the arg-max of d's column
  (Clark).

A word that sees no other word (under a causal mask) predicts nothing, which is a miss. The baseline
always predicts the relation's most frequent offset in words. UD's root relation is excluded. The
relation `all` (Clark) has the arcs of all relations, and the roots; since roots have no head, every
attention head and the baseline miss them.

Departure: Voita et al. do not say that a word itself is excluded; for `head->dependent` it is
here, as in Clark et al., so that the three directions can be compared.

References: Voita et al. (2019), section 5.2, https://arxiv.org/abs/1905.09418; Clark et al. (2019),
section 4.2, https://arxiv.org/abs/1906.04341
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headcount.measures.links import Linked
from headcount.measures.reductions import Attention, Sides
from headcount.measures.sums import Sums
from headcount.measures.units import counts, most_frequent
from headcount.tap import Reduction
from headcount.vocabulary import ALL, DIRECTIONS, LINK_DIRECTIONS

_SIGNS = (1, -1, 1)
"""Sign of an offset head - dependent as each direction looks."""


@final
@dataclass(frozen=True)
class Syntactic(Sums):
    """Correct predictions by relation and direction, and the offsets for the baseline."""

    name = "syntactic"
    needs = frozenset({Reduction.ARC_HITS})

    correct: Float[Tensor, "relation head direction"]
    """Number of arcs that each head predicts correctly, in each of `DIRECTIONS`."""
    offsets: Int[Tensor, "relation offset"]
    """Number of arcs at each offset head - dependent in words, or in words of a link's field;
    offset 0 is in the middle."""
    roots: Int[Tensor, ""]
    """Number of words without a head."""
    further: Int[Tensor, " relation"]
    """Number of further keys of links that have several, see `links`."""

    @classmethod
    def applies(cls, attention: Attention) -> bool:
        """Whether there are trees over words that attend to each other."""
        return attention.arcs is not None

    @classmethod
    def of(cls, attention: Attention) -> "Syntactic":
        """The sums over one batch."""
        arcs, hits_AHD = attention.arcs, attention.arc_hits_AHD
        assert arcs is not None and hits_AHD is not None
        linked = attention.sides.once(Linked.of)
        hits_LHD = linked.any(hits_AHD).double()
        correct = hits_LHD.new_zeros(arcs.num_relations, *hits_LHD.shape[1:])
        correct.index_add_(0, linked.relation_L, hits_LHD)
        return cls(correct, *attention.sides.once(_offsets_roots_further))

    def table(self, relations: tuple[str, ...]) -> pd.DataFrame:
        """Rows `index relation direction accuracy correct cases baseline baseline_offset`.

        Rows of `ALL` come last.
        """
        sums = self._part(slice(len(relations)))
        return sums._with_all()._rows((*relations, ALL), DIRECTIONS, int(sums.roots))

    def table_of_links(self, links: tuple[str, ...]) -> pd.DataFrame:
        """The same rows for links, which follow the relations."""
        return self._part(slice(-len(links), None))._rows(links, LINK_DIRECTIONS)

    @property
    def cases(self) -> Int[Tensor, " relation"]:
        """Number of arcs or links of each relation."""
        return self.offsets.sum(-1) - self.further

    def _rows(
        self, names: Sequence[str], directions: Iterable[str], roots: int = 0
    ) -> pd.DataFrame:
        """Rows of some relations; the last one has roots, too."""
        cases_R = self.cases
        cases_R[-1] += roots
        best_R, offset_R = most_frequent(self.offsets)
        rows = []
        for r, relation in enumerate(names):
            cases = int(cases_R[r])
            if cases == 0:
                continue
            for d, direction in enumerate(directions):
                offset = _SIGNS[d] * int(offset_R[r])
                baseline = int(best_R[r]) / cases
                for index, correct in enumerate(self.correct[r, :, d].tolist()):
                    right = (correct / cases, int(correct), cases)
                    rows.append((index, relation, direction, *right, baseline, offset))
        names = "index relation direction accuracy correct cases baseline baseline_offset"
        return pd.DataFrame(rows, columns=names.split())

    def _with_all(self) -> "Syntactic":
        """The sums with an extra relation at the end, over all relations."""
        whole = (each.sum(0, keepdim=True) for each in (self.correct, self.offsets, self.further))
        correct, offsets, further = whole
        return Syntactic(
            torch.cat([self.correct, correct]),
            torch.cat([self.offsets, offsets]),
            self.roots,
            torch.cat([self.further, further]),
        )

    def _part(self, chosen: slice) -> "Syntactic":
        """The sums of some relations."""
        return Syntactic(
            self.correct[chosen], self.offsets[chosen], self.roots, self.further[chosen]
        )


def _offsets_roots_further(sides: Sides) -> tuple[Tensor, Tensor, Tensor]:
    """What the trees and links of a batch say, whatever heads do."""
    arcs, words = sides.arcs, sides.words
    assert arcs is not None and words is not None
    reach = words.num_words - 1
    width = 2 * reach + 1
    bin_A = arcs.relation_A * width + arcs.offset_A + reach
    offsets = counts(bin_A, arcs.num_relations * width).view(arcs.num_relations, width)
    further = sides.once(Linked.of).further(arcs.relation_A, arcs.num_relations)
    return offsets, torch.tensor(arcs.num_roots, device=offsets.device), further
