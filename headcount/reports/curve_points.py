"""The points of a curve as figures and documents read them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
import pandas as pd

from headcount.pruning.points import ALL, CONTROL

RANDOM = "random"


@final
@dataclass(frozen=True)
class CurvePoint:
    """One row of the table."""

    method: str
    seed: int
    keep: int
    numbers: Mapping[str, float]
    """Losses, scores, and heads kept at each site, by column."""
    heads: tuple[str, ...]
    """Names of the heads that stay."""


@final
@dataclass(frozen=True)
class CurvePoints:
    """All points of a curve."""

    points: tuple[CurvePoint, ...]

    @classmethod
    def of(cls, frame: pd.DataFrame) -> "CurvePoints":
        """The rows of a `curve.parquet`."""
        return cls(tuple(_point(row) for row in frame.to_dict("records")))

    @property
    def whole(self) -> CurvePoint:
        """The point of the whole model."""
        return next(point for point in self.points if point.method == ALL)

    @property
    def methods(self) -> list[str]:
        """Every method, random last."""
        names = dict.fromkeys(
            point.method
            for point in self.points
            if point.method != ALL and not point.method.startswith(CONTROL)
        )
        return sorted(names, key=lambda name: name == RANDOM)

    @property
    def controls(self) -> dict[str, CurvePoint]:
        """The whole model trained as long as a method trains, by the method."""
        return {
            point.method.removeprefix(CONTROL): point
            for point in self.points
            if point.method.startswith(CONTROL)
        }

    @property
    def keeps(self) -> list[int]:
        """Every budget but that of the whole model, most heads first."""
        return sorted({point.keep for point in self.points} - {self.whole.keep}, reverse=True)

    def __contains__(self, column: str) -> bool:
        return column in self.whole.numbers

    def values(self, method: str, keep: int, column: str) -> list[float]:
        """A number of a method under a budget, for each seed."""
        return [
            point.numbers[column]
            for point in self.points
            if (point.method, point.keep) == (method, keep)
        ]

    def mean(self, method: str, column: str) -> float:
        """The mean of a number over the budgets of all methods, each over seeds; NaN of none."""
        shared = [
            keep
            for keep in self.keeps
            if all(self.values(other, keep, column) for other in self.methods)
        ]
        each = [self.values(method, keep, column) for keep in shared]
        return float(np.mean([np.mean(values) for values in each])) if each else math.nan

    def first_seed(self, method: str) -> list[CurvePoint]:
        """The points of a method with its first seed and of the whole model, fewest heads first."""
        found: dict[int, CurvePoint] = {}
        # A method may have a point of its own of all heads.
        for point in sorted(self.points, key=lambda point: point.method == ALL):
            if point.method in (method, ALL):
                found.setdefault(point.keep, point)
        return [found[keep] for keep in sorted(found)]


def _point(row: dict) -> CurvePoint:
    named = ("loss", "score", "kept_")
    numbers = {
        str(name): float(value)
        for name, value in row.items()
        if str(name).removeprefix("test_").startswith(named)
    }
    heads = tuple(str(row["heads"]).split())
    return CurvePoint(str(row["method"]), int(row["seed"]), int(row["keep"]), numbers, heads)
