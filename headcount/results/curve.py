"""The points of a curve as figures and documents read them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
import pandas as pd

ALL = "all heads"
"""Method name in the row of the dense model."""


CONTROL = "control of "
"""Prefix of a method's name, in the row of its control: the dense model trained for as long."""


RANDOM = "random"


@final
@dataclass(frozen=True)
class CurvePoint:
    """One row of the table."""

    method: str
    seed: int
    keep: int
    numbers: Mapping[str, float]
    """Losses, scores, and number of heads kept at each site, by column."""
    heads: tuple[str, ...]
    """Names of the kept heads."""


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
    def dense(self) -> CurvePoint:
        """The point of the dense model."""
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
        """The dense model trained for as many updates as each method that trains, by method."""
        return {
            point.method.removeprefix(CONTROL): point
            for point in self.points
            if point.method.startswith(CONTROL)
        }

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
            for point in self.points
            if (point.method, point.keep) == (method, keep)
        ]

    def mean(self, method: str, column: str) -> float:
        """Mean over the budgets that all methods share, each a mean over seeds; NaN without any."""
        shared = [
            keep
            for keep in self.keeps
            if all(self.values(other, keep, column) for other in self.methods)
        ]
        each = [self.values(method, keep, column) for keep in shared]
        return float(np.mean([np.mean(values) for values in each])) if each else math.nan

    def first_seed(self, method: str) -> list[CurvePoint]:
        """The points of a method's first seed and of the dense model, the fewest heads first."""
        found: dict[int, CurvePoint] = {}
        # A method may have its own point with all heads.
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
