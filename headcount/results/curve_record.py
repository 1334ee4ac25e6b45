"""The files of a curve: `curve.parquet` with a row per point, and its record, `curve.json`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import pandas as pd

from headcount.core import reading, write_atomically
from headcount.results.curve import CurvePoints
from headcount.results.json_file import JsonObject, encoded, write_record


@final
@dataclass(frozen=True, kw_only=True)
class CurveRecord:
    """Facts about a curve that its rows do not hold."""

    metric: str
    """Name of the score, e.g. `bleu`."""
    heads: Mapping[str, tuple[int, ...]]
    """Number of heads of the dense model in each layer, by site."""
    warnings: tuple[str, ...] = ()
    """Sentences about the data, and about methods that were left out."""
    sentences: tuple[str, ...] = ()
    """Sentences on the best method, and on those no better than random heads."""
    signature: str
    """Model, data, options and versions that the points depend on, in one text."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the command; empty if the curve was made in Python."""

    def to_json(self) -> dict[str, Any]:
        """The contents of `curve.json`."""
        return encoded(self)

    @classmethod
    def read(cls, path: Path) -> "CurveRecord":
        """The record in a `curve.json`.

        Raises:
            InputError: if there is no such file, or it is damaged or of a newer version.
        """
        return JsonObject.read(path, "headcount curve").decode(cls)

    def write(self, path: Path) -> None:
        """Write the record, completely or not at all."""
        write_record(path, self)


def write_curve_table(folder: Path, frame: pd.DataFrame) -> None:
    """Write the rows of a curve as `curve.parquet`."""
    write_atomically(folder / "curve.parquet", lambda file: frame.to_parquet(file, index=False))


def read_curve(folder: Path) -> tuple[CurvePoints, CurveRecord]:
    """The points and the record of a curve.

    Raises:
        InputError: if a file is missing, damaged or of a newer version.
    """
    record = CurveRecord.read(folder / "curve.json")
    path = folder / "curve.parquet"
    with reading(path, "the points of a curve", "run `headcount curve` again"):
        return CurvePoints.of(pd.read_parquet(path)), record
