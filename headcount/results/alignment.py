"""A word alignment: how well every head links the words of translations."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, final

import pandas as pd

from headcount.core import reading
from headcount.results.json_file import JsonObject, encoded, write_sealed


@final
@dataclass(frozen=True, kw_only=True)
class AlignmentRow:
    """How well the links of one head, of one layer or of another aligner agree with gold links."""

    head: str
    """Name of the head, e.g. `cross.5.0`; of the layer, e.g. `cross.5`; or of the aligner."""
    level: str
    """`head`, `layer`, `mean of heads` (of a layer's numbers), or `aligner`."""
    quantity: str
    """What links are read from: `weights`, `norms` of the weighted vectors, or a `file`."""
    direction: str
    """The row of a target word: `output`, `input`, `target->source`, `target<-source` or both,
    `target<->source`; `file` for another aligner."""
    aer: float
    """Alignment error rate, from 0 to 1; lower is better."""
    aer_low: float = math.nan
    """Lower end of the 95 % interval of the error rate, over pairs."""
    aer_high: float = math.nan
    """Upper end of the 95 % interval of the error rate, over pairs."""
    precision: float
    """Share of the links that are sure or possible."""
    recall: float
    """Share of the sure links that are found."""
    accuracy: float = math.nan
    """Share of the target words with gold links that are linked to one of theirs."""


@final
@dataclass(frozen=True, kw_only=True)
class AlignmentRecord:
    """Facts about an alignment that its rows do not hold."""

    signature: str
    """Model, texts, gold links, options and versions that the rows depend on, in one text."""
    model: str
    """Name of the model, as given."""
    corpora: tuple[str, ...]
    """Names of the files with pairs."""
    gold: str
    """Name of the file with gold links."""
    pairs: int
    """Number of pairs that were aligned."""
    too_long: int = 0
    """Number of pairs that are too long for the model and were left out."""
    sure: int
    """Number of sure links."""
    possible: int
    """Number of possible links, the sure ones included."""
    cases: int
    """Number of target words with gold links."""
    warnings: tuple[str, ...] = ()
    """Sentences about what was left out."""
    sentences: tuple[str, ...] = ()
    """Sentences on the best head and its margin."""
    timings: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each step."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the command; empty if the alignment was made in Python."""

    def to_json(self) -> dict[str, Any]:
        """The contents of `alignment.json`."""
        return encoded(self)

    @classmethod
    def read(cls, path: Path) -> "AlignmentRecord":
        """The record in an `alignment.json`.

        Raises:
            InputError: if there is no such file, or it is damaged or of a newer version.
        """
        return JsonObject.read_sealed(path, "headcount align").decode(cls)


@final
@dataclass(frozen=True)
class Alignment:
    """The result of an alignment."""

    rows: tuple[AlignmentRow, ...]
    record: AlignmentRecord

    @property
    def frame(self) -> pd.DataFrame:
        """The table: one row per head or layer, quantity and direction."""
        return pd.DataFrame([asdict(row) for row in self.rows])

    def ranked(self, level: str = "head", quantity: str = "weights") -> list[AlignmentRow]:
        """The rows of one level and quantity, each head in its best direction, the best first."""
        best: dict[str, AlignmentRow] = {}
        for row in self.rows:
            if row.level == level and row.quantity in (quantity, "file"):
                other = best.get(row.head)
                if other is None or row.aer < other.aer:
                    best[row.head] = row
        return sorted(best.values(), key=lambda row: row.aer)


def write_alignment(alignment: Alignment, folder: Path) -> None:
    """Write `alignment.parquet`, then `alignment.json`."""
    tables = {"alignment.parquet": alignment.frame}
    write_sealed(folder / "alignment.json", alignment.record, tables=tables)


def read_alignment(folder: Path) -> Alignment:
    """The alignment in a folder.

    Raises:
        InputError: if a file is missing, damaged or of a newer version.
    """
    record = AlignmentRecord.read(folder / "alignment.json")
    path = folder / "alignment.parquet"
    with reading(path, "the rows of an alignment", "Run `headcount align` again."):
        rows = pd.read_parquet(path).to_dict("records")
        return Alignment(
            tuple(AlignmentRow(**{str(k): v for k, v in row.items()}) for row in rows), record
        )
