"""Rows: typed records, one a row of a table."""

from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from headcount.core import reading

T = TypeVar("T")


def frame_of(kind: type, rows: Sequence[Any]) -> pd.DataFrame:
    """Records of one dataclass as a data frame, with a column for each field."""
    names = [each.name for each in fields(kind)]
    return pd.DataFrame([asdict(row) for row in rows], columns=names)


def read_rows(path: Path, kind: type[T], what: str, advice: str) -> tuple[T, ...]:
    """The records in the rows of a Parquet file.

    Args:
        path: the file.
        kind: dataclass of the records.
        what: what the file holds, for errors.
        advice: what to do if it can't be read.

    Raises:
        InputError: if the file is missing or damaged.
    """
    with reading(path, what, advice):
        found = pd.read_parquet(path).to_dict("records")
        return tuple(kind(**{str(name): each for name, each in row.items()}) for row in found)
