"""Links: arcs that belong together, of which a head has to find one.

Measures see an arc for each key of a link. A link is found if one of its arcs is, in any direction:
the query looks most at one of its keys, or one of its keys looks most at the query. A fixed offset
finds it if some key stands there. A dependency arc is a link of its own. Where links name their
candidates, see `link_fields`.
"""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from headcount.measures.reductions import Sides
from headcount.measures.units import counts

BEFORE, AFTER = 1, 2
"""Places in the counts of further arcs of those whose head stands before or after the dependent;
those of all are the first."""


@final
@dataclass(frozen=True, eq=False)
class Linked:
    """The links of a batch."""

    link_A: Int[Tensor, " arc"] | None
    """Link of each arc; None if every arc is a link of its own."""
    relation_L: Int[Tensor, " link"]
    """Relation of each link."""
    further_A3: Bool[Tensor, "arc 3"]
    """Whether a link has an earlier arc than this one: of any kind, of those whose head stands
    before the dependent, and of those whose head stands after it."""

    @classmethod
    def of(cls, sides: Sides) -> "Linked":
        """The links of one batch."""
        arcs = sides.arcs
        assert arcs is not None
        is_after_A = arcs.head_A > arcs.dependent_A
        kinds_A3 = torch.stack([torch.ones_like(is_after_A), ~is_after_A, is_after_A], 1)
        if arcs.link_A is None:
            return cls(None, arcs.relation_A, torch.zeros_like(kinds_A3))
        num_links = int(arcs.link_A[-1]) + 1
        relation_L = arcs.relation_A.new_zeros(num_links)
        relation_L.scatter_(0, arcs.link_A, arcs.relation_A)
        earlier_A3 = kinds_A3.long().cumsum(0) - kinds_A3.long()
        first_A = torch.searchsorted(arcs.link_A, arcs.link_A)
        has_earlier_A3 = earlier_A3 > earlier_A3[first_A]
        return cls(arcs.link_A, relation_L, kinds_A3 & has_earlier_A3)

    def any(self, is_so_A: Bool[Tensor, "arc ..."]) -> Bool[Tensor, "link ..."]:
        """Whether it is so for one of the arcs of each link."""
        return is_so_A if self.link_A is None else self.largest(is_so_A.long()) > 0

    def largest(self, number_A: Shaped[Tensor, "arc ..."]) -> Shaped[Tensor, "link ..."]:
        """The largest number of the arcs of each link."""
        if self.link_A is None:
            return number_A
        shape = (len(self.relation_L), *number_A.shape[1:])
        index_A = self.link_A.view(-1, *[1] * (number_A.ndim - 1)).expand_as(number_A)
        found = number_A.new_zeros(shape)
        return found.scatter_reduce(0, index_A, number_A, "amax", include_self=False)

    def further(self, bin_A: Int[Tensor, " arc"], num_bins: int) -> Int[Tensor, "bin 3"]:
        """Number of further arcs of links in each bin; see `further_A3`."""
        kinds = (bin_A.where(each, num_bins) for each in self.further_A3.unbind(1))
        return torch.stack([counts(each, num_bins + 1)[:num_bins] for each in kinds], 1)
