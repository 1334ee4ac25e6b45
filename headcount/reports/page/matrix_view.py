"""The matrix of scores: how alike every two of them rank the heads."""

import math
from dataclasses import dataclass
from typing import final

from headcount import numbers
from headcount.reports.names import MEASURES
from headcount.results import Matrix

_SHORT = {"entropy": "entropy", "positional_share": "positional share"}
"""Short headings of columns."""


@final
@dataclass(frozen=True)
class MatrixCell:
    """One correlation."""

    text: str
    interval: str
    says: str
    size: float
    """Strength of the colour, from 0 to 1."""
    negative: bool
    by_chance: bool
    """Whether the interval contains zero."""


@final
@dataclass(frozen=True)
class MatrixView:
    """The matrix as named rows and columns."""

    sentence: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[MatrixCell, ...]], ...]


def matrix_view(matrix: Matrix | None) -> MatrixView | None:
    """The matrix; None with fewer than two scores."""
    if matrix is None or len(matrix.names) < 2:
        return None
    labels = [label(name) for name in matrix.names]
    rows = tuple(
        (labels[row], tuple(_cell(matrix, labels, row, column) for column in range(row)))
        for row in range(1, len(labels))
    )
    return MatrixView(matrix.sentence, tuple(labels[:-1]), rows)


def label(name: str) -> str:
    """The short heading for a column of the table of heads."""
    if name in _SHORT:
        return _SHORT[name]
    return MEASURES[name].label if name in MEASURES else name.replace("_", " ")


def _cell(matrix: Matrix, labels: list[str], row: int, column: int) -> MatrixCell:
    rho, low, high = (each[row][column] for each in (matrix.rho, matrix.low, matrix.high))
    known = math.isfinite(rho)
    interval = f"{numbers.correlation(low)} to {numbers.correlation(high)}" if known else ""
    return MatrixCell(
        text=numbers.correlation(rho),
        interval=interval,
        says=f"{labels[row]} and {labels[column]}: "
        + (f"{numbers.correlation(rho)}, 95\u202f% {interval}" if known else "unknown"),
        size=round(min(1.0, abs(rho)), 3) if known else 0.0,
        negative=known and rho < 0,
        by_chance=not known or low <= 0 <= high,
    )
