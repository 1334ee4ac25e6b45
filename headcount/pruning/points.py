"""Points of a curve: which there are, and those that are done, in one file that a killed run keeps.

A point is a method, a seed, and a number of heads that stay.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from headcount.files import nulls_for_nan
from headcount.keyed import read_keyed, write_keyed

Row = dict[str, Any]
"""Columns of a point by name."""

ALL = "all heads"
"""The method of the row of the whole model."""

CONTROL = "control of "
"""Before a method that trains weights: what the row of all heads trained as long is named."""

WITH_SEEDS = frozenset({"random"})
"""Methods that are run with every seed; the others with the first."""


@final
@dataclass(frozen=True)
class Point:
    """Where on the curve."""

    method: str
    seed: int
    keep: int

    @property
    def name(self) -> str:
        """Its own."""
        return f"{self.method}/{self.seed}/{self.keep}"


def points(methods: Iterable[str], keeps: Iterable[int], seeds: Sequence[int]) -> list[Point]:
    """All points: method by method, seed by seed, most heads first.

    >>> [point.name for point in points(["norm", "random"], [2, 4], [0, 1])]
    ['norm/0/4', 'norm/0/2', 'random/0/4', 'random/0/2', 'random/1/4', 'random/1/2']
    """
    return [
        Point(method, seed, keep)
        for method in methods
        for seed in (seeds if method in WITH_SEEDS else seeds[:1])
        for keep in sorted(set(keeps), reverse=True)
    ]


def read_points(file: Path | None, key: str) -> dict[str, Row]:
    """The rows so far by the name of their point; none where there is no file.

    Raises:
        InputError: if the file is damaged, or of another curve.
    """
    return read_keyed(file, key, "the points of a curve")


def write_points(file: Path | None, key: str, rows: Mapping[str, Row]) -> None:
    """Write the rows so far, whole or not at all; nowhere for None."""
    write_keyed(file, key, nulls_for_nan(rows))
