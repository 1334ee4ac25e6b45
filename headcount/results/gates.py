"""Gate densities: the Hard Concrete gates at the end of the trainings of a reproduction."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from headcount.core import HeadTable
from headcount.results.store import Table, frame_of, read_table

GATES = "gates.parquet"
"""Table of trained gates in the folder of a reproduction."""


@final
@dataclass(frozen=True)
class GateRow:
    """One head's gate after a training under one budget."""

    method: str
    """Name of the method in the curve."""
    keep: int
    """Number of kept heads under the budget."""
    head: str
    """Name of the head."""
    site: str
    """Site of the head."""
    log_a: float
    """Learned parameter of the gate's distribution."""
    closed: float
    """Probability that a drawn gate is exactly 0."""
    below: float
    """Probability that it is below 0.1."""
    above: float
    """Probability that it is above 0.9."""
    open: float
    """Probability that it is exactly 1."""
    mean: float
    """Gate without noise, which evaluation uses: 0 to 1."""
    is_kept: bool
    """Whether the head was kept."""

    @property
    def between(self) -> float:
        """Probability that a drawn gate is from 0.1 to 0.9."""
        return 1 - self.below - self.above


def write_gates(rows: Sequence[GateRow], folder: Path) -> Path:
    """Write the table into a folder; returns its path."""
    path = folder / GATES
    HeadTable(frame_of(tuple[GateRow, ...], rows)).write(path)
    return path


def read_gates(folder: Path) -> tuple[GateRow, ...]:
    """The table in the folder of a reproduction.

    Raises:
        InputError: if there is none, or it is damaged.
    """
    stored = Table(GATES, "the gates of a reproduction")
    advice = "Run the reproduction again."
    return read_table(folder / GATES, tuple[GateRow, ...], stored, advice)
