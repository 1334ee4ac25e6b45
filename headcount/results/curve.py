"""A curve: its points, in `curve.parquet` with a row each, and its record, `curve.json`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from textwrap import shorten
from typing import TYPE_CHECKING, Any, final

from headcount.core import Head, amount, drawn_html
from headcount.results.store import Record, Result
from headcount.results.tables import table

if TYPE_CHECKING:
    import pandas as pd

ALL = "all heads"
"""Method name in the point of the dense model."""

RANDOM = "random"

CURVE = "curve"
"""Folder of a curve beside an analysis, whose report shows it."""

_CONTROL = "control of "
"""Prefix of a method's name in the rows of its control, in files without `is_control`."""


@final
@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """How good a model is with some of its heads."""

    method: str
    """Name of the method that chose the heads."""
    seed: int
    keep: int
    """Number of kept heads among those that can be pruned."""
    is_control: bool = False
    """Whether this is the method's control: the dense model trained for as many updates."""
    kept: Mapping[str, int]
    """Number of kept heads at each site."""
    numbers: Mapping[str, float]
    """Losses and scores by column: `loss`, `score`, `test_loss`, `test_score`."""
    seconds: float = 0.0
    """Time that choosing took; a ranking continues from the previous point."""
    heads: tuple[Head, ...]
    """The kept heads."""

    def row(self) -> dict[str, Any]:
        """The point by column of the table."""
        return {
            "method": self.method,
            "seed": self.seed,
            "keep": self.keep,
            "is_control": self.is_control,
            **{f"kept_{site}": number for site, number in self.kept.items()},
            **self.numbers,
            "seconds": self.seconds,
            "heads": list(map(str, self.heads)),
        }

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "CurvePoint":
        """The point in a row of the table, also in one that an earlier version wrote."""
        method, names = str(row["method"]), row["heads"]
        return cls(
            method=method.removeprefix(_CONTROL),
            seed=int(row["seed"]),
            keep=int(row["keep"]),
            is_control=bool(row.get("is_control")) or method.startswith(_CONTROL),
            kept={
                name.removeprefix("kept_"): int(number)
                for name, number in row.items()
                if name.startswith("kept_")
            },
            numbers={
                name: math.nan if number is None else float(number)
                for name, number in row.items()
                if name.removeprefix("test_") in ("loss", "score")
            },
            seconds=float(row.get("seconds", 0.0)),
            heads=tuple(map(Head.parse, names.split() if isinstance(names, str) else names)),
        )


@final
@dataclass(frozen=True)
class CurvePoints:
    """All points of a curve."""

    points: tuple[CurvePoint, ...]

    def __repr__(self) -> str:
        methods, keeps = ", ".join(self.methods), ", ".join(map(str, self.keeps))
        text = f"CurvePoints({amount(len(self.points), 'point')}: {methods}; heads kept: {keeps})"
        return shorten(text, 200, placeholder=" ...)")

    def _repr_html_(self) -> str:
        return drawn_html(self)

    @classmethod
    def of(cls, frame: "pd.DataFrame") -> "CurvePoints":
        """The points in the rows of a `curve.parquet`."""
        rows = (
            {str(name): value for name, value in row.items()} for row in frame.to_dict("records")
        )
        return cls(tuple(map(CurvePoint.of_row, rows)))

    @property
    def frame(self) -> "pd.DataFrame":
        """The table, with a row per point."""
        import pandas as pd  # only here: a taken folder is refused without

        return pd.DataFrame([point.row() for point in self.points])

    @property
    def dense(self) -> CurvePoint:
        """The point of the dense model."""
        return next(point for point in self.points if point.method == ALL)

    @property
    def methods(self) -> list[str]:
        """Every method, random last."""
        names = dict.fromkeys(point.method for point in self._chosen() if point.method != ALL)
        return sorted(names, key=lambda name: name == RANDOM)

    @property
    def controls(self) -> dict[str, CurvePoint]:
        """The dense model trained for as many updates as each method that trains, by method."""
        return {point.method: point for point in self.points if point.is_control}

    @property
    def keeps(self) -> list[int]:
        """Every budget except the dense model's, the most heads first."""
        return sorted({point.keep for point in self.points} - {self.dense.keep}, reverse=True)

    def __contains__(self, column: str) -> bool:
        return column in self.dense.numbers

    def values(self, method: str, keep: int, column: str) -> list[float]:
        """The column's value for a method and a budget, one per seed."""
        return [
            point.numbers[column]
            for point in self._chosen()
            if (point.method, point.keep) == (method, keep)
        ]

    def mean(self, method: str, column: str) -> float:
        """Mean over the budgets that all methods share, each a mean over seeds; NaN without any."""
        shared = [
            keep
            for keep in self.keeps
            if all(self.values(other, keep, column) for other in self.methods)
        ]
        each = [fmean(self.values(method, keep, column)) for keep in shared]
        return fmean(each) if each else math.nan

    def first_seed(self, method: str) -> list[CurvePoint]:
        """The points of a method's first seed and of the dense model, the fewest heads first."""
        found: dict[int, CurvePoint] = {}
        # A method may have its own point with all heads.
        for point in sorted(self._chosen(), key=lambda point: point.method == ALL):
            if point.method in (method, ALL):
                found.setdefault(point.keep, point)
        return [found[keep] for keep in sorted(found)]

    def _chosen(self) -> list[CurvePoint]:
        """The points that are no controls."""
        return [point for point in self.points if not point.is_control]


@final
@dataclass(frozen=True, kw_only=True)
class CurveRecord(Record):
    """Facts about a curve that its points do not hold."""

    FILE = "curve.json"
    COMMAND = "headcount curve"

    metric: str
    """Name of the score, e.g. `bleu`."""
    heads: Mapping[str, tuple[int, ...]]
    """Number of heads of the dense model in each layer, by site."""
    sentences: tuple[str, ...] = ()
    """Sentences on the best method, and on those no better than random heads."""


def _checked(frame: "pd.DataFrame") -> CurvePoints:
    found = CurvePoints.of(frame)
    names = [(each.method, each.seed, each.keep, each.is_control) for each in found.points]
    if not names or len({*names}) < len(names):
        raise ValueError("it has no point, or one twice")
    if all(point.method != ALL for point in found.points):
        raise ValueError("it has no point of the dense model")
    return found


@final
@dataclass(frozen=True)
class Curve(Result[CurveRecord]):
    """How good a model is with fewer and fewer heads."""

    DOCUMENTS = ("curve.md", "curve.html")

    record: CurveRecord
    points: CurvePoints = table("curve.parquet", "the points of a curve", made=_checked)
    """All points."""
