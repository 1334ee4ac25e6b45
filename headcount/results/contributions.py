"""Contributions: what tokens add to a layer's output by weights and norms, a row per number."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import pandas as pd

from headcount.results.claiming import CONTRIBUTION_FILES
from headcount.results.json_file import JsonObject, encoded, write_sealed
from headcount.results.rows import frame_of, read_rows

ROWS, _, RECORD = CONTRIBUTION_FILES

MEAN = -1
"""The layer of a row that is a mean over the layers of a site."""


@final
@dataclass(frozen=True)
class ContributionRow:
    """One number of one layer, or a mean over layers."""

    site: str
    """Site of the layer, e.g. `encoder.self`."""
    layer: int
    """Number of the layer in its site; -1 for the mean over layers."""
    metric: str
    """`weight`, `norm`, `weighted_norm`, `joint_norm`: means; `..._share`: of the sum over tokens;
    `mixing`: ratio of the context; `weight_by_norm`, `by_rank`: Spearman's correlations."""
    kind: str
    """Kind of the token; for `mixing` the method; for `by_rank` what the rank correlates with."""
    value: float
    """The number; NaN if there was no case."""
    low: float
    """Lower end of the 95 % interval by a bootstrap over sentences."""
    high: float
    """Upper end of that interval."""
    cases: int
    """Number of tokens that the number is over."""


@final
@dataclass(frozen=True, kw_only=True)
class ContributionRecord:
    """Facts about contributions that their table does not hold."""

    signature: str
    """Model, corpus, options and versions that the numbers depend on, in one text."""
    model: str
    """Name of the model, without its folder."""
    corpora: tuple[str, ...]
    """Names of the corpus files."""
    sentences: int
    """Number of sentences."""
    heads: int
    """Number of heads."""
    truncated: int = 0
    """Number of sentences with a side too long for the model."""
    warnings: tuple[str, ...] = ()
    """Sentences about what was truncated, or what could not be measured."""
    timings: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each step."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the command; empty if they were measured in Python."""

    def to_json(self) -> dict[str, Any]:
        """The contents of `contributions.json`."""
        return encoded(self)

    @classmethod
    def read(cls, path: Path) -> "ContributionRecord":
        """The record in a `contributions.json`.

        Raises:
            InputError: if there is no such file, or it is damaged or of a newer version.
        """
        return JsonObject.read_sealed(path, "headcount reproduce kobayashi2020").decode(cls)


@final
@dataclass(frozen=True)
class ContributionTable:
    """What tokens add to every layer's output."""

    rows: tuple[ContributionRow, ...]
    """Every number."""
    record: ContributionRecord

    def find(self, site: str, metric: str, kind: str, layer: int = MEAN) -> ContributionRow | None:
        """One row; None if there is none."""
        for row in self.rows:
            if (row.site, row.metric, row.kind, row.layer) == (site, metric, kind, layer):
                return row
        return None

    def layers(self, site: str, metric: str, kind: str) -> tuple[ContributionRow, ...]:
        """The rows of a site's layers, in order, without their mean."""
        wanted = (site, metric, kind)
        rows = (row for row in self.rows if (row.site, row.metric, row.kind) == wanted)
        return tuple(row for row in rows if row.layer != MEAN)

    def frame(self) -> pd.DataFrame:
        """The rows as a data frame."""
        return frame_of(ContributionRow, self.rows)

    def write(self, folder: Path) -> None:
        """Write `contributions.parquet` and, last, `contributions.json`."""
        write_sealed(folder / RECORD, self.record, tables={ROWS: self.frame()})


def read_contributions(folder: Path) -> ContributionTable:
    """The contributions in a folder.

    Raises:
        InputError: if a file is missing, damaged or of a newer version.
    """
    record = ContributionRecord.read(folder / RECORD)
    rows = read_rows(
        folder / ROWS,
        ContributionRow,
        "what tokens contribute",
        "Run `headcount reproduce kobayashi2020` again.",
    )
    return ContributionTable(rows, record)
