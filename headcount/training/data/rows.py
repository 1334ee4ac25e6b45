"""Reading of the training data: rows of one text, or of a source and a target.

Rows with an empty side teach nothing: they are left out, and counted.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from headcount.core import CorpusError
from headcount.corpora import (
    HUB,
    TABLES,
    Column,
    Columns,
    ColumnSpec,
    Data,
    numbered_lines,
    read_data,
)

Row = tuple[str, ...]
"""The sides of an example."""
PAIR = {
    "source": Column(("source", "src"), may_be_empty=True),
    "target": Column(("target", "tgt", "reference"), may_be_empty=True),
}
TEXT = {
    "text": Column(("text", "sentence", "content", "source", "src"), may_be_empty=True),
}


@final
@dataclass(frozen=True)
class Rows:
    """Examples as text."""

    sides: tuple[str, ...]
    """Names of the sides."""
    rows: list[Row]
    num_empty: int = 0
    """Number of rows left out because a side is empty."""
    num_shared: int = 0
    """Number of rows left out because they share a side with a held-out row."""

    @property
    def sha256(self) -> str:
        """Hash of the rows."""
        return hashlib.sha256(json.dumps(self.rows).encode()).hexdigest()

    @property
    def columns(self) -> dict[str, list[str]]:
        """The rows as columns, in the form that tasks read."""
        return dict(zip(self.sides, map(list, zip(*self.rows, strict=True)), strict=True))


def read_pairs(data: Data, columns: Columns | None = None) -> Rows:
    """Read sources and targets from a table, or from two text files with one example per line.

    Raises:
        CorpusError: for files that can't be read, are not UTF-8, lack the columns or have
            different numbers of lines; or if no pair is left.
    """
    if columns or isinstance(data, Mapping | str | Path) or not _are_two_texts(data):
        return _rows(data, columns, PAIR)
    sides = [[line for _, line in numbered_lines(Path(file))] for file in data]
    if len(sides[0]) != len(sides[1]):
        raise CorpusError(
            f"Expected as many lines in {data[1]} as in {data[0]}, got {len(sides[1])} and "
            f"{len(sides[0])}. Line i of one file must translate line i of the other."
        )
    return _without_empty(list(zip(*sides, strict=True)), tuple(PAIR), str(data[0]))


def read_texts(data: Data, columns: Columns | None = None) -> Rows:
    """Read texts: lines of `.txt` files, a column of a table, or the sources of parallel text.

    Raises:
        CorpusError: as `read_data` does, or if no text is left.
    """
    return _rows(data, columns, TEXT)


def write_rows(rows: Rows, path: Path) -> None:
    """Write rows as a `.tsv` file with a header."""
    lines = ["\t".join(row) for row in [rows.sides, *rows.rows]]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _are_two_texts(files: Sequence[str | Path]) -> bool:
    """Whether the data are two files that are neither tables nor data sets of the hub."""
    tables = [str(file).startswith(HUB) or Path(file).suffix in TABLES for file in files]
    return len(tables) == 2 and not any(tables)


def _rows(data: Data, columns: Columns | None, roles: ColumnSpec) -> Rows:
    table = read_data(data, columns, roles)
    rows = list(zip(*(table[role] for role in roles), strict=True))
    return _without_empty(rows, tuple(roles), table.origins[0] if table.origins else "the data")


def _without_empty(rows: list[Row], sides: tuple[str, ...], where: str) -> Rows:
    stripped = [tuple(" ".join(side.split()) for side in row) for row in rows]
    full = [row for row in stripped if all(row)]
    if not full:
        raise CorpusError(
            f"{where}: expected at least one example with {' and '.join(sides)}, got none among "
            f"{len(rows)} lines."
        )
    return Rows(sides, full, len(rows) - len(full))
