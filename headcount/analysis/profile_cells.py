"""The cells of a profile: one trait of some heads, with its null and what is attainable."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pandas as pd

from headcount.core import Head
from headcount.results import PROFILE_COLUMNS
from headcount.statistics import ClusteredRates


@final
@dataclass(frozen=True)
class Cell:
    """The numbers of one trait of one head, as `TraitStrength` describes them, untested."""

    share: float
    null: float
    attainable: float
    strength: float
    low: float
    high: float
    cases: int
    units: int
    score: float
    chance: float
    position_null: float
    first_gain: float
    paper_share: float
    p: float


@final
@dataclass(frozen=True)
class ProfileRow:
    """One trait of one head, untested."""

    head: Head
    trait: str
    role: str
    """Role that the trait can give."""
    cell: Cell
    offset: int | None = None
    relation: str | None = None
    direction: str | None = None


def profile_frame(rows: Iterable[ProfileRow]) -> pd.DataFrame:
    """A table of rows with the columns of `profiles.parquet`; tests fill those that are missing."""
    names = ("trait", "role", "offset", "relation", "direction")
    cells = [
        {"head": str(row.head)}
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


def _wide(number: float | np.ndarray, count: int) -> np.ndarray:
    return np.broadcast_to(np.asarray(number, dtype=float), (count,))


def ratio(over: Any, under: Any) -> Any:
    """A quotient, NaN for no cases."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.divide(over, np.where(np.asarray(under) == 0, np.nan, under))
