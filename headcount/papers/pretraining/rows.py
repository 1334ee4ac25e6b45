"""Rows of the training data, each one text or a source and a target, and held-out rows.

Rows with an empty side teach nothing: they are left out, and counted. Held-out rows share no side
with the training rows: sentence collections contain many translations of one sentence, so randomly
drawn lines leak.
"""

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from headcount.core import CorpusError, InputError, amount
from headcount.corpora import (
    Column,
    Columns,
    Data,
    Table,
    are_two_texts,
    named_files,
    numbered_lines,
    read_data,
    read_parallel,
)

Row = tuple[str, ...]
"""The sides of an example."""
PAIR = {
    "source": Column(("source", "src"), may_be_empty=True),
    "target": Column(("target", "tgt", "reference"), may_be_empty=True),
}
TEXT = {"text": Column(("text", "sentence", "content", "source", "src"), may_be_empty=True)}


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
    if columns or not are_two_texts(data):
        return _rows(read_parallel(data, columns, PAIR))
    files = named_files(data)
    sides = [[line for _, line in numbered_lines(Path(file))] for file in files]
    if len(sides[0]) != len(sides[1]):
        raise CorpusError(
            f"Expected as many lines in {files[1]} as in {files[0]}, got {len(sides[1])} and "
            f"{len(sides[0])}. Line i of one file must translate line i of the other."
        )
    return _without_empty(list(zip(*sides, strict=True)), tuple(PAIR), str(files[0]))


def read_texts(data: Data, columns: Columns | None = None) -> Rows:
    """Read texts: lines of `.txt` files, a column of a table, or the sources of parallel text.

    Raises:
        CorpusError: as `read_data` does, or if no text is left.
    """
    return _rows(read_data(data, columns, TEXT))


def write_rows(rows: Rows, path: Path) -> None:
    """Write rows as a `.tsv` file with a header."""
    lines = ["\t".join(row) for row in [rows.sides, *rows.rows]]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _rows(table: Table) -> Rows:
    rows = list(zip(*table.columns.values(), strict=True))
    sides = tuple(table.columns)
    return _without_empty(rows, sides, table.origins[0] if table.origins else "the data")


def _without_empty(rows: list[Row], sides: tuple[str, ...], where: str) -> Rows:
    stripped = [tuple(" ".join(side.split()) for side in row) for row in rows]
    full = [row for row in stripped if all(row)]
    if not full:
        raise CorpusError(
            f"{where}: expected at least one example with {' and '.join(sides)}, got none among "
            f"{amount(len(rows), 'line')}."
        )
    return Rows(sides, full, len(rows) - len(full))


def hold_out(rows: Rows, sizes: Sequence[int], seed: int = 0) -> tuple[Rows, list[Rows]]:
    """Draw held-out sets.

    No two drawn rows share a side, and the rows left share no side with any of them. Sides count as
    the same if they are equal after lower-casing.

    Args:
        rows: all rows.
        sizes: sizes of the held-out sets.
        seed: seed of the draw.

    Returns:
        The rows left for training, in their order, with the number of rows removed because they
        share a side with a held-out row; and the held-out sets.

    Raises:
        InputError: if too few rows share no side with each other, or none would be left.
    """
    keys = [tuple(side.lower() for side in row) for row in rows.rows]
    drawn = _drawn(keys, sum(sizes), seed)
    taken = [{keys[index][side] for index in drawn} for side in range(len(rows.sides))]
    left = [row for row, key in zip(rows.rows, keys, strict=True) if not _shares(key, taken)]
    if len(drawn) < sum(sizes) or not left:
        raise InputError(
            f"Expected {amount(sum(sizes), 'row')} to hold out that share no side, got "
            f"{len(drawn)} of {amount(len(keys), 'row')}, which leaves {len(left)} for training. "
            "Hold out fewer."
        )
    sets, first = [], 0
    for size in sizes:
        chosen = drawn[first : first + size]
        sets.append(replace(rows, rows=[rows.rows[index] for index in chosen], num_empty=0))
        first += size
    num_shared = len(rows.rows) - len(left) - len(drawn)
    return replace(rows, rows=left, num_shared=num_shared), sets


def _drawn(keys: list[Row], count: int, seed: int) -> list[int]:
    """Indices of up to `count` randomly drawn rows that share no side."""
    taken: list[set[str]] = [set() for _ in keys[0]]
    drawn: list[int] = []
    for index in random.Random(seed).sample(range(len(keys)), len(keys)):
        if len(drawn) == count:
            break
        if not _shares(keys[index], taken):
            drawn.append(index)
            for key, seen in zip(keys[index], taken, strict=True):
                seen.add(key)
    return drawn


def _shares(key: Row, taken: Sequence[set[str]]) -> bool:
    return any(side in seen for side, seen in zip(key, taken, strict=True))
