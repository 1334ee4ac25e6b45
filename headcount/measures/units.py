r"""Sums over units: what a test of clustered cases needs, as sums that add.

A head's hits (or weights) x and cases n are summed in every unit u, and

$$\sum_u x_u, \; \sum_u x_u^2, \; \sum_u x_u n_u, \; \sum_u n_u, \; \sum_u n_u^2$$

over the units of the second half of the corpus, and the number of units with cases, are all that
the rate x / n, its standard error clustered by unit, and a t-test need (`statistics/p_values.py`).
Of the first half, on which is chosen, the plain sums are enough.

The windows of a long text may lie in several batches. A unit is *open* until all its rows were
read: its sums x and n are kept apart, and squared then.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import final

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64, Shaped
from torch import Tensor

from headcount.corpora import FIRST_HALF, SECOND_HALF
from headcount.measures.reductions import Sides
from headcount.statistics import ClusteredRates


def counts(bins: Int64[Tensor, "*any"], num_bins: int) -> Int64[Tensor, " bin"]:
    """Number of elements in each bin; unlike `bincount`, without a wait for a GPU."""
    zeros, bins = bins.new_zeros(num_bins), bins.flatten()
    return zeros.scatter_add_(0, bins, bins.new_ones(()).expand_as(bins))


def most_frequent(number_KO: Shaped[Tensor, "kind offset"]) -> tuple[Tensor, Tensor]:
    """The largest number of each row, and its offset from the middle: the nearest in a tie."""
    reach = number_KO.shape[-1] // 2
    # 0, -1, 1, -2, 2 ...: arg-max takes the first in a tie
    nearest = sorted(range(-reach, reach + 1), key=lambda offset: (abs(offset), offset))
    order = torch.tensor(nearest, device=number_KO.device)
    number_K, best_K = number_KO[:, order + reach].max(-1)
    return number_K, order[best_K]


@final
@dataclass(frozen=True, eq=False)
class Slots:
    """Where each query of a batch is added: units of the second half, the first half, nowhere."""

    slot_BQ: Int64[Tensor, "batch query"]
    """Number of the unit of the second half; `num_second` for the first half, then the rest."""
    unit_U: Int64[Tensor, " unit"]
    """Number in the corpus of each unit of the second half."""
    rows_U: Int64[Tensor, " unit"]
    """Number of rows, in all batches, that each unit is in; 0 if that is not known."""
    seen_U: Int64[Tensor, " unit"]
    """Number of these rows that are in this batch."""
    has_one_each: bool
    """Whether each row is one unit, so that rows can be summed."""
    has_open: bool
    """Whether some units have rows in other batches."""

    @classmethod
    def of(cls, sides: Sides) -> "Slots":
        """The slots of the queries."""
        queries = sides.queries
        is_second_BQ = queries.half_BN == SECOND_HALF
        unit_U, slot_S = queries.unit_BN[is_second_BQ].unique(return_inverse=True)
        num_second = len(unit_U)
        slot_BQ = queries.unit_BN.new_full(queries.unit_BN.shape, num_second + 1)
        slot_BQ[queries.half_BN == FIRST_HALF] = num_second
        slot_BQ[is_second_BQ] = slot_S
        row_S = is_second_BQ.nonzero()[:, 0]
        pair_2P = torch.stack([slot_S, row_S]).unique(dim=1)
        rows_U = unit_U.new_zeros(num_second).index_copy_(0, pair_2P[0], queries.rows_B[pair_2P[1]])
        is_same_BQ = slot_BQ == slot_BQ[:, :1]
        has_one_each = sides.with_context is None and bool(
            (is_same_BQ | ~queries.is_token_BN).all()
        )
        slot_BQ.masked_fill_(~queries.is_token_BN, num_second + 1)
        seen_U = counts(pair_2P[0], num_second)
        has_open = bool((seen_U != rows_U).any())
        return cls(slot_BQ, unit_U, rows_U, seen_U, has_one_each, has_open)

    @property
    def num_second(self) -> int:
        """Number of units of the second half."""
        return len(self.unit_U)

    @cached_property
    def is_open_U(self) -> Bool[Tensor, " unit"]:
        """Units that have rows in other batches."""
        return self.seen_U != self.rows_U

    def sums(
        self,
        numbers_KBHQ: Shaped[Tensor, "kind batch head query"],
        is_case_KBQ: Bool[Tensor, "kind batch query"],
    ) -> "UnitSums":
        """The sums of several kinds of numbers over the queries that are cases of the kind."""
        cases_KBHQ = numbers_KBHQ * is_case_KBQ[:, :, None]
        num_kinds, _, num_heads, _ = cases_KBHQ.shape
        sum_SKH = torch.zeros(
            self.num_second + 2, num_kinds, num_heads, dtype=torch.float64, device=cases_KBHQ.device
        )
        if self.has_one_each:
            cases_BKH = cases_KBHQ.sum(3, dtype=torch.float64).transpose(0, 1)
            sum_SKH.index_add_(0, self.slot_BQ[:, 0], cases_BKH)
        else:
            cases_NKH = cases_KBHQ.permute(1, 3, 0, 2).flatten(0, 1).double()
            sum_SKH.index_add_(0, self.slot_BQ.flatten(), cases_NKH)
        return UnitSums(sum_SKH[self.num_second], sum_SKH[: self.num_second])


@final
@dataclass(frozen=True, eq=False)
class UnitSums:
    """Sums over the first half, and over each unit of the second half."""

    first_KH: Float64[Tensor, "kind head"]
    second_UKH: Float64[Tensor, "unit kind head"]

    def halves(self) -> Float64[Tensor, "2 kind head"]:
        """Sums over either half."""
        return torch.stack([self.first_KH, self.second_UKH.sum(0)])


@final
@dataclass(frozen=True, eq=False)
class Groups:
    """The cases of one kind in one unit, where most units have cases of few kinds."""

    slot_G: Int64[Tensor, " group"]
    """Slot of the unit."""
    kind_G: Int64[Tensor, " group"]
    """Kind of the cases."""
    size_G: Int64[Tensor, " group"]
    """Number of cases."""
    num_kinds: int
    """Number of kinds that there are."""


@final
@dataclass(frozen=True, eq=False)
class Moments:
    """Second moments over the units of the second half, of several kinds of cases.

    Hits x may be of several columns, such as heads, and cases n are the same for all of them.
    """

    squares: Shaped[Tensor, "kind column"]
    """Sum over closed units of x squared."""
    products: Shaped[Tensor, "kind column"]
    """Sum over closed units of x n."""
    cases_squares: Int64[Tensor, " kind"]
    """Sum over closed units of n squared."""
    units: Int64[Tensor, " kind"]
    """Number of closed units with cases."""
    open_unit: Int64[Tensor, " open"]
    """Number in the corpus of each open unit, in ascending order."""
    open_rows: Int64[Tensor, " open"]
    """Number of rows that it is in; 0 if that is not known."""
    open_seen: Int64[Tensor, " open"]
    """Number of its rows that were read."""
    open_hits: Shaped[Tensor, "open kind column"]
    """Its hits so far."""
    open_cases: Int64[Tensor, "open kind"]
    """Its cases so far."""

    @classmethod
    def of(
        cls,
        hits_UKC: Shaped[Tensor, "unit kind column"],
        cases_UK: Int64[Tensor, "unit kind"],
        slots: Slots,
    ) -> "Moments":
        """The moments of the units of one batch."""
        if not slots.has_open:
            return cls.of_closed(hits_UKC, cases_UK)
        open_U = slots.is_open_U
        opens = (each[open_U] for each in (slots.unit_U, slots.rows_U, slots.seen_U))
        closed = cls.of_closed(hits_UKC[~open_U], cases_UK[~open_U])
        return replace(
            closed,
            **dict(zip(OPEN, (*opens, hits_UKC[open_U], cases_UK[open_U]), strict=True)),
        )

    @classmethod
    def of_groups(
        cls, hits_GC: Float64[Tensor, "group column"], groups: Groups, slots: Slots
    ) -> "Moments":
        """The moments of the units of one batch, from the hits of each group."""
        opens, open_U, places = slice(0), slice(0), slots.is_open_U.cumsum(0) - 1
        closed = slice(None)  # without open units, no boolean index waits for a GPU
        if slots.has_open:
            open_U = slots.is_open_U
            opens = open_U[groups.slot_G]
            closed = ~opens
        kind_G, size_G, closed_GC = groups.kind_G[closed], groups.size_G[closed], hits_GC[closed]
        zeros_K = size_G.new_zeros(groups.num_kinds)
        zeros_KC = hits_GC.new_zeros(groups.num_kinds, hits_GC.shape[1])
        unit_O, index = slots.unit_U[open_U], (places[groups.slot_G[opens]], groups.kind_G[opens])
        open_hits = hits_GC.new_zeros(len(unit_O), *zeros_KC.shape)
        open_hits.index_put_(index, hits_GC[opens])
        open_cases = size_G.new_zeros(len(unit_O), groups.num_kinds)
        return cls(
            squares=zeros_KC.index_add(0, kind_G, closed_GC**2),
            products=zeros_KC.index_add(0, kind_G, closed_GC * size_G[:, None]),
            cases_squares=zeros_K.index_add(0, kind_G, size_G**2),
            units=counts(kind_G, groups.num_kinds),
            open_unit=unit_O,
            open_rows=slots.rows_U[open_U],
            open_seen=slots.seen_U[open_U],
            open_hits=open_hits,
            open_cases=open_cases.index_put_(index, groups.size_G[opens]),
        )

    @classmethod
    def of_closed(cls, hits_UKC: Tensor, cases_UK: Tensor) -> "Moments":
        """The moments of complete units."""
        nothing = cases_UK.new_zeros(0)
        return cls(
            squares=(hits_UKC**2).sum(0),
            products=(hits_UKC * cases_UK[..., None]).sum(0),
            cases_squares=(cases_UK**2).sum(0),
            units=(cases_UK > 0).sum(0),
            open_unit=nothing,
            open_rows=nothing,
            open_seen=nothing,
            open_hits=hits_UKC[:0],
            open_cases=cases_UK[:0],
        )

    def __add__(self, other: "Moments") -> "Moments":
        device = other.squares.device  # the sums of an interrupted run come from a file
        mine = {name: getattr(self, name).to(device) for name in CLOSED + OPEN}
        closed = {name: mine[name] + getattr(other, name) for name in CLOSED}
        both = {name: torch.cat([mine[name], getattr(other, name)]) for name in OPEN}
        if not len(both["open_unit"]):
            return Moments(**closed, **both)
        unit_V, place_N = both["open_unit"].unique(return_inverse=True)
        rows_V = unit_V.new_zeros(len(unit_V)).index_copy_(0, place_N, both["open_rows"])
        seen_V, hits_VKC, cases_VK = (
            each.new_zeros(len(unit_V), *each.shape[1:]).index_add_(0, place_N, each)
            for each in (both["open_seen"], both["open_hits"], both["open_cases"])
        )
        open_V = seen_V != rows_V
        opens = (each[open_V] for each in (unit_V, rows_V, seen_V, hits_VKC, cases_VK))
        left = Moments(**closed, **dict(zip(OPEN, opens, strict=True)))
        if bool(open_V.all()):
            return left
        return left + Moments.of_closed(hits_VKC[~open_V], cases_VK[~open_V])

    def of_columns(self, chosen: slice) -> "Moments":
        """The moments of some columns."""
        return replace(
            self,
            squares=self.squares[:, chosen],
            products=self.products[:, chosen],
            open_hits=self.open_hits[..., chosen],
        )

    def split(self, sizes: Sequence[int]) -> list["Moments"]:
        """The moments of each layer, if the columns are those of the heads of several layers."""
        stops = [stop * self.squares.shape[1] // sum(sizes) for stop in accumulate(sizes)]
        return [self.of_columns(slice(*cut)) for cut in pairwise([0, *stops])]

    @classmethod
    def join(cls, layers: Sequence["Moments"]) -> "Moments":
        """The moments of several layers over the same units, side by side."""
        columns = ("squares", "products", "open_hits")
        joined = {name: torch.cat([getattr(each, name) for each in layers], -1) for name in columns}
        return replace(layers[0], **joined)

    def closed(self) -> "Moments":
        """The moments once everything was read."""
        rest = Moments.of_closed(self.open_hits, self.open_cases)
        none = {name: getattr(rest, name) for name in OPEN}
        return replace(self, **none) + rest

    def rates(self, hits_C: np.ndarray, cases: int, kind: int) -> ClusteredRates:
        """The rates of one kind of cases.

        Args:
            hits_C: sum of x over all units.
            cases: sum of n over all units.
            kind: number of the kind.
        """
        closed = self.closed()
        return ClusteredRates.of(
            hits_C,
            cases,
            squares_H=closed.squares[kind].double().numpy(),
            products_H=closed.products[kind].double().numpy(),
            cases_squares=int(closed.cases_squares[kind]),
            units=int(closed.units[kind]),
        )


OPEN = tuple(field.name for field in fields(Moments) if field.name.startswith("open_"))
CLOSED = tuple(field.name for field in fields(Moments) if field.name not in OPEN)
