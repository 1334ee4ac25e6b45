"""Tuned maps: how fine-tuning changes attention, a row for each number, with the disabled heads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import pandas as pd

from headcount.results.claiming import TUNED_FILES
from headcount.results.json_file import JsonObject, encoded, write_sealed
from headcount.results.rows import frame_of, read_rows

ROWS, _, RECORD = TUNED_FILES

ALL = -1
"""The layer of a row over all layers of a site."""


@final
@dataclass(frozen=True)
class TunedRow:
    """One number of one head, of a layer's heads, or of all heads of a site."""

    site: str
    """Site, e.g. `encoder.self`."""
    layer: int
    """Number of the layer in its site; -1 for all layers."""
    head: str
    """Name of the head; `all` for all heads of the layer."""
    metric: str
    """`before`, `after`, `trained`: share of maps with a pattern, by the rule before and after
    fine-tuning, and by the classifier after it; `agreement`, `kappa` of the two; `cosine`;
    `words-before`, `words-after`: mean attention to a class of words; `words`: its share of tokens;
    `disabled`: drop of the score when attention is uniform."""
    kind: str
    """Name of the pattern or of the class of words; else empty."""
    value: float
    low: float
    """Lower end of the 95 % interval."""
    high: float
    """Upper end of the 95 % interval."""
    cases: int
    """Number of maps, queries or examples."""


@final
@dataclass(frozen=True, kw_only=True)
class TunedRecord:
    """Facts that the table does not hold."""

    signature: str
    """Model, data, options and versions that the numbers depend on, in one text."""
    model: str
    """Name of the model before fine-tuning, without its folder."""
    tuned: str
    """Name of the fine-tuned model, without its folder."""
    data: tuple[str, ...]
    """Names of the task's files."""
    examples: int
    """Number of examples."""
    metric: str
    """Name of the score."""
    score: float
    """Score of the fine-tuned model."""
    classifier_accuracy: float
    """Share of generated maps that the classifier gets right."""
    treebank: tuple[str, ...] = ()
    """Names of the files with tagged words."""
    treebank_sentences: int = 0
    """Number of sentences in them."""
    warnings: tuple[str, ...] = ()
    """Sentences about what was truncated."""
    timings: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each step."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the command; empty if it was measured in Python."""

    def to_json(self) -> dict[str, Any]:
        """The contents of `tuned.json`."""
        return encoded(self)

    @classmethod
    def read(cls, path: Path) -> "TunedRecord":
        """The record in a `tuned.json`.

        Raises:
            InputError: if there is no such file, or it is damaged or of a newer version.
        """
        return JsonObject.read_sealed(path, "headcount reproduce kovaleva2019").decode(cls)


@final
@dataclass(frozen=True)
class TunedMaps:
    """How fine-tuning changes attention."""

    rows: tuple[TunedRow, ...]
    """Every number."""
    record: TunedRecord

    def find(
        self, site: str, metric: str, kind: str = "", layer: int = ALL, head: str = "all"
    ) -> TunedRow | None:
        """One row; None if there is none."""
        wanted = (site, metric, kind, layer, head)
        for row in self.rows:
            if (row.site, row.metric, row.kind, row.layer, row.head) == wanted:
                return row
        return None

    def frame(self) -> pd.DataFrame:
        """The rows as a data frame."""
        return frame_of(TunedRow, self.rows)

    def write(self, folder: Path) -> None:
        """Write `tuned.parquet` and, last, `tuned.json`."""
        write_sealed(folder / RECORD, self.record, tables={ROWS: self.frame()})


def read_tuned_maps(folder: Path) -> TunedMaps:
    """The numbers in a folder.

    Raises:
        InputError: if a file is missing, damaged or of a newer version.
    """
    record = TunedRecord.read(folder / RECORD)
    rows = read_rows(
        folder / ROWS,
        TunedRow,
        "maps after fine-tuning",
        "Run `headcount reproduce kovaleva2019` again.",
    )
    return TunedMaps(rows, record)
