"""An assessment in a run folder: columns of the head table, and `importance.json`."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from headcount.core import (
    Heads,
    HeadTable,
    InputError,
    reading,
)
from headcount.results.importance import ImportanceRecord

COLUMNS = (
    "gradient",
    "relevance",
    "ablation_delta",
    "ablation_low",
    "ablation_high",
    "ablation_p",
    "norm_score",
    "sink_score",
)
"""Columns that assessments write."""


def read_head_table(folder: Path) -> HeadTable | None:
    """The table of heads in a run folder; None if there is none.

    Raises:
        InputError: if it is damaged.
    """
    path = folder / "heads.parquet"
    if not path.exists():
        return None
    what = "what a finished run wrote"
    with reading(path, what, "name a complete folder, or rerun the command that wrote it"):
        table = HeadTable.read(path)
        list(table.frame["head"])
    return table


def scored_table(heads: Heads, columns: Mapping[str, object], folder: Path) -> HeadTable:
    """The head table of a folder, or a new one, with the columns of a new assessment only."""
    table = read_head_table(folder)
    if table is None:
        return HeadTable.of(heads, columns)
    frame = table.frame.drop(columns=[name for name in COLUMNS if name in table.frame])
    return HeadTable(frame.assign(**dict(columns)))


def write_scores(folder: Path, table: HeadTable, record: ImportanceRecord) -> None:
    """Write the table and, last, the record."""
    table.write(folder / "heads.parquet")
    record.write(folder / "importance.json")


def read_assessment(folder: Path, method: str) -> tuple[pd.DataFrame, ImportanceRecord]:
    """The head table and the record of an assessment.

    Raises:
        InputError: If the folder has no assessment, or one without the method.
    """
    path = folder / "importance.json"
    if not path.exists():
        raise InputError(
            f"Expected an assessment in {folder}, but it has no {path.name}. Run `headcount "
            f"importance ... --methods {method} --out {folder}` first."
        )
    record = ImportanceRecord.read(path)
    if method not in record.methods:
        raise InputError(
            f"Expected an assessment by {method} in {path}, got one by {', '.join(record.methods)}."
            f" Run `headcount importance` with --methods {method}."
        )
    table = read_head_table(folder)
    if table is None:
        raise InputError(
            f"Expected the table of an assessment in {folder}, but it has no heads.parquet. Run "
            "`headcount importance` again."
        )
    return table.frame, record
