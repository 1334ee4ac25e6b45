"""Points of a curve: the list of all points, and one file with the finished ones for resuming.

A point is a method, a seed, and a number of kept heads.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from headcount.files import nulls_for_nan
from headcount.keyed import read_keyed, write_keyed

Row = dict[str, Any]
"""Values of a point by column."""

ALL = "all heads"
"""Method name in the row of the dense model."""

CONTROL = "control of "
"""Prefix of a method's name, in the row of its control: the dense model trained for as long."""

WITH_SEEDS = frozenset({"random"})
"""Methods that run with every seed; the others run with the first seed."""


@final
@dataclass(frozen=True)
class Point:
    """One point of a curve."""

    method: str
    seed: int
    keep: int

    @property
    def name(self) -> str:
        """The point's name in the file."""
        return f"{self.method}/{self.seed}/{self.keep}"


def points(methods: Iterable[str], keeps: Iterable[int], seeds: Sequence[int]) -> list[Point]:
    """All points, ordered by method, then seed, then number of heads, most heads first.

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
    """The rows so far by the name of their point; empty if there is no file.

    Raises:
        InputError: if the file is damaged, or belongs to another curve.
    """
    return read_keyed(file, key, "the points of a curve")


def write_points(file: Path | None, key: str, rows: Mapping[str, Row]) -> None:
    """Write the rows so far, completely or not at all; do nothing if the file is None."""
    write_keyed(file, key, nulls_for_nan(rows))
