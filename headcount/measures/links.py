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


@final
@dataclass(frozen=True, eq=False)
class Linked:
    """The links of a batch."""

    link_A: Int[Tensor, " arc"] | None
    """Link of each arc; None if every arc is a link of its own."""
    relation_L: Int[Tensor, " link"]
    """Relation of each link."""
    further_A: Bool[Tensor, " arc"]
    """Whether a link has an earlier arc than this one."""

    @classmethod
    def of(cls, sides: Sides) -> "Linked":
        """The links of one batch."""
        arcs = sides.arcs
        assert arcs is not None
        if arcs.link_A is None:
            return cls(None, arcs.relation_A, torch.zeros_like(arcs.is_baseline_A))
        num_links = int(arcs.link_A[-1]) + 1
        relation_L = arcs.relation_A.new_zeros(num_links)
        relation_L.scatter_(0, arcs.link_A, arcs.relation_A)
        place_A = torch.arange(len(arcs.link_A), device=arcs.link_A.device)
        return cls(arcs.link_A, relation_L, place_A > torch.searchsorted(arcs.link_A, arcs.link_A))

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

    def further(self, bin_A: Int[Tensor, " arc"], num_bins: int) -> Int[Tensor, " bin"]:
        """Number of further arcs of links in each bin; see `further_A`."""
        return counts(bin_A.where(self.further_A, num_bins), num_bins + 1)[:num_bins]
