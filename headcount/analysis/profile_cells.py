"""The cells of a profile: one trait of some heads, with its null and what is attainable."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, final

import numpy as np
import pandas as pd

from headcount.core import Head, LayerId
from headcount.measures import ClassSums, Looks, PatchLooks
from headcount.results import PROFILE_COLUMNS, Cell
from headcount.statistics import ClusteredRates
from headcount.vocabulary import SYNTAX, TraitEntry

K = TypeVar("K", bound=Hashable)


@final
@dataclass(frozen=True)
class ProfileRow:
    """One trait of one head, untested."""

    head: Head
    entry: TraitEntry
    cell: Cell
    offset: int | None = None
    relation: str | None = None
    direction: str | None = None

    @property
    def trait(self) -> str:
        """Name of the trait; a relation without its subtype, and a kind of link."""
        if self.relation is None:
            return self.entry.key
        return self.relation.split(":")[0] if self.entry == SYNTAX else self.relation


def profile_frame(rows: Iterable[ProfileRow]) -> pd.DataFrame:
    """A table of rows with the columns of `profiles.parquet`; tests fill those that are missing."""
    names = ("offset", "relation", "direction")
    cells = [
        {"head": str(row.head), "trait": row.trait, "role": row.entry.role.name}
        | {name: value for name in names if (value := getattr(row, name)) is not None}
        | vars(row.cell)
        for row in rows
    ]
    return pd.DataFrame(cells, columns=[*PROFILE_COLUMNS])


@final
@dataclass(frozen=True)
class Cells:
    """One trait of some heads: arrays over heads."""

    rates: ClusteredRates
    chance: float | np.ndarray
    position_null: float | np.ndarray
    first_share: np.ndarray
    first_null: float | np.ndarray
    cases: int
    paper_share: np.ndarray
    attainable: float | np.ndarray = 1.0
    scale: float = 1.0
    """Share of the queries that are cases, by which rates, chance and nulls are multiplied."""
    score: np.ndarray | None = None
    """What is compared with the paper's threshold, if not the rate."""

    def each(self) -> Iterator[Cell]:
        """The cell of every head."""
        rates, count = self.rates, len(self.rates.rate_H)
        chance, position = (_wide(n, count) for n in (self.chance, self.position_null))
        null, attainable = np.fmax(chance, position), _wide(self.attainable, count)
        room = np.where(attainable > null, attainable - null, np.nan)
        low, high = rates.interval()
        gain = self.first_share - self.first_null
        columns = {
            "share": rates.rate_H * self.scale,
            "null": null * self.scale,
            "attainable": attainable * self.scale,
            "strength": (rates.rate_H - null) / room,
            "low": (low - null) / room,
            "high": (high - null) / room,
            "cases": np.full(count, self.cases),
            "units": np.full(count, rates.units),
            "score": rates.rate_H if self.score is None else self.score,
            "chance": chance * self.scale,
            "position_null": position * self.scale,
            "first_gain": gain,
            "paper_share": self.paper_share,
            "p": rates.p_above(null),
        }
        for values in zip(*(column.tolist() for column in columns.values()), strict=True):
            yield Cell(**dict(zip(columns, values, strict=True)))


def profile_rows(
    place: LayerId, entry: TraitEntry, cells: Cells | None, **more: Any
) -> Iterator[ProfileRow]:
    """The rows of one trait of a layer's heads; none without cells.

    Args:
        place: the layer.
        entry: the trait.
        cells: its numbers.
        more: offset, relation or direction.
    """
    for index, cell in enumerate(cells.each() if cells else ()):
        yield ProfileRow(Head(*place, index), entry, cell, **more)


def chosen_rows(
    place: LayerId,
    entry: TraitEntry,
    chosen: Sequence[K],
    cells_of: Callable[[K], Cells],
    named: Sequence[Mapping[str, Any]],
) -> Iterator[ProfileRow]:
    """A row of one trait for each head, of what the head chose on the first half of the corpus."""
    made = {each: list(cells_of(each).each()) for each in {*chosen}}
    for index, (each, more) in enumerate(zip(chosen, named, strict=True)):
        yield ProfileRow(Head(*place, index), entry, made[each][index], **more)


def look_cells(
    looks: Looks | PatchLooks, at: int, beside: Sequence[int], paper_share: np.ndarray | None = None
) -> Cells:
    """How often heads look most at one place, relative to them.

    Args:
        looks: the sums of a layer.
        at: number of the place in the sums.
        beside: numbers of the places beside it, whose mean share is the null of position.
        paper_share: the paper's number; by default the share of all queries.
    """
    hits_2H, cases_2 = looks.hits[..., at].double().numpy(), looks.cases[:, at].numpy()
    chance_2 = ratio(looks.chance[:, at].numpy(), cases_2)
    of_all = ratio(hits_2H.sum(0), int(looks.queries.sum())) if paper_share is None else paper_share
    first_null, null = (_beside(looks, beside, half) for half in (0, 1))
    return Cells(
        looks.moments.rates(hits_2H[1], int(cases_2[1]), at),
        chance=float(chance_2[1]),
        position_null=null,
        first_share=ratio(hits_2H[0], cases_2[0]),
        first_null=np.fmax(chance_2[0], first_null),
        cases=int(cases_2[1]),
        paper_share=of_all,
        scale=float(ratio(cases_2[1], int(looks.queries[1]))),
    )


def _beside(looks: Looks | PatchLooks, at: Sequence[int], half: int) -> np.ndarray:
    """How often each head looks at those of some places that exist, on average."""
    rates_HO = ratio(looks.hits[half][:, at].double().numpy(), looks.cases[half, at].numpy())
    has_any_O = ~np.isnan(rates_HO).all(0)
    if not has_any_O.any():
        return np.full(len(rates_HO), np.nan)
    return rates_HO[:, has_any_O].mean(1)


def class_cells(
    sums: ClassSums,
    t: int,
    by_position_2H: np.ndarray,
    paper_share: np.ndarray | None = None,
    score: np.ndarray | None = None,
) -> Cells | None:
    """How much of their attention heads give to a class of keys; None without a case.

    Args:
        sums: the sums of a layer.
        t: number of the class in the sums.
        by_position_2H: what the offsets that heads look at give them, in each half.
        paper_share: the paper's number; by default the share over all cases.
        score: what is compared with the paper's threshold, if not the share.
    """
    weight_2H, cases_2 = sums.weight[:, t].numpy(), sums.cases[:, t].numpy()
    if not cases_2.any():
        return None
    chance_2 = ratio(sums.chance[:, t].numpy(), cases_2)
    over_all = ratio(weight_2H.sum(0), cases_2.sum()) if paper_share is None else paper_share
    return Cells(
        sums.moments.rates(weight_2H[1], int(cases_2[1]), t),
        chance=float(chance_2[1]),
        position_null=by_position_2H[1],
        first_share=ratio(weight_2H[0], cases_2[0]),
        first_null=np.fmax(chance_2[0], by_position_2H[0]),
        cases=int(cases_2[1]),
        paper_share=over_all,
        score=score,
    )


def _wide(number: float | np.ndarray, count: int) -> np.ndarray:
    return np.broadcast_to(np.asarray(number, dtype=float), (count,))


def ratio(over: Any, under: Any) -> Any:
    """A quotient, NaN for no cases."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.divide(over, np.where(np.asarray(under) == 0, np.nan, under))
