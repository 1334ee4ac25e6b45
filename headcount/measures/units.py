r"""Sums over units: what a test of clustered cases needs, as sums that add.

A head's hits (or weights) x and cases n are summed in every unit u, and

$$\sum_u x_u, \; \sum_u x_u^2, \; \sum_u x_u n_u, \; \sum_u n_u, \; \sum_u n_u^2$$

over the units of the second half of the corpus, and the number of units with cases, are all that
the rate x / n, its standard error clustered by unit, and a t-test need (`analysis/clustered.py`).
Of the first half, on which is chosen, the plain sums are enough.
"""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float64, Int64, Shaped
from torch import Tensor

from headcount.measures.reductions import Sides


@final
@dataclass(frozen=True, eq=False)
class Slots:
    """Where each query of a batch is added: units of the second half, the first half, nowhere."""

    slot_BQ: Int64[Tensor, "batch query"]
    """Number of the unit of the second half; `num_second` for the first half, then padding."""
    num_second: int
    """Number of units of the second half."""
    has_one_each: bool
    """Whether each row is one unit, so that rows can be summed."""

    @classmethod
    def of(cls, sides: Sides) -> "Slots":
        """The slots of the queries."""
        queries = sides.queries
        second_U, slot_U = queries.unit_BN[queries.is_second_BN].unique(return_inverse=True)
        num_second = len(second_U)
        slot_BQ = queries.unit_BN.new_full(queries.unit_BN.shape, num_second)
        slot_BQ[queries.is_second_BN] = slot_U
        slot_BQ[~queries.is_token_BN] = num_second + 1
        is_first_BQ = queries.unit_BN == queries.unit_BN[:, :1]
        has_one_each = sides.with_context is None and bool(
            (is_first_BQ | ~queries.is_token_BN).all()
        )
        return cls(slot_BQ, num_second, has_one_each)

    def sums(
        self, numbers_BHQ: Shaped[Tensor, "batch head query"], is_case_BQ: Tensor
    ) -> "UnitSums":
        """The sums of some numbers over the queries that are cases."""
        cases_BHQ = numbers_BHQ * is_case_BQ[:, None]
        num_heads = cases_BHQ.shape[1]
        sum_SH = torch.zeros(
            self.num_second + 2, num_heads, dtype=torch.float64, device=cases_BHQ.device
        )
        if self.has_one_each:
            sum_SH.index_add_(0, self.slot_BQ[:, 0], cases_BHQ.sum(2, dtype=torch.float64))
        else:
            by_query_NH = cases_BHQ.transpose(1, 2).reshape(-1, num_heads).double()
            sum_SH.index_add_(0, self.slot_BQ.flatten(), by_query_NH)
        return UnitSums(sum_SH[self.num_second], sum_SH[: self.num_second])


@final
@dataclass(frozen=True, eq=False)
class UnitSums:
    """Sums over the first half, and over each unit of the second half."""

    first_H: Float64[Tensor, " head"]
    second_UH: Float64[Tensor, "unit head"]

    def halves(self) -> Float64[Tensor, "2 head"]:
        """Sums over either half."""
        return torch.stack([self.first_H, self.second_UH.sum(0)])
