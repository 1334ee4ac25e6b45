"""Sensitivity: how the loss reacts to attention on kinds of tokens, a row for each number."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import pandas as pd

from headcount.results.claiming import SENSITIVITY_FILES
from headcount.results.json_file import JsonObject, encoded, write_sealed
from headcount.results.rows import frame_of, read_rows

ROWS, RECORD = SENSITIVITY_FILES

KINDS = ("separator", "first", "punctuation", "other")
"""Kinds of tokens that are attended to; each token has one."""


@final
@dataclass(frozen=True)
class SensitivityRow:
    """One number of one head, or of all heads of one layer."""

    site: str
    """Site of the layer, e.g. `encoder.self`."""
    layer: int
    """Number of the layer in its site."""
    head: str
    """Name of the head; `all` for the mean over the layer's heads."""
    kind: str
    """Kind of the token attended to, one of `KINDS`."""
    metric: str
    """`gradient`: mean |dL/dA|, in the loss's unit; `attention`: mean weight on the kind,
    over queries; `ratio`: gradient, as a share of that for other tokens."""
    value: float
    """The number; NaN if no token is of the kind."""
    low: float
    """Lower end of the 95 % interval by a bootstrap over examples."""
    high: float
    """Upper end of that interval."""
    cases: int
    """Number of weights (`attention`: of queries, `ratio`: of weights on the kind)."""


@final
@dataclass(frozen=True, kw_only=True)
class NoOp:
    """Whether heads that look more at a kind of token react less to it."""

    site: str
    kind: str
    spearman: float
    """Rank correlation over heads of attention to the kind with the gradient's ratio."""
    low: float
    """Lower end of the 95 % interval."""
    high: float
    """Upper end of the 95 % interval."""
    heads: int
    """Number of heads."""


@final
@dataclass(frozen=True, kw_only=True)
class SensitivityRecord:
    """Facts about a sensitivity that its table does not hold."""

    signature: str
    """Model, data, options and versions that the numbers depend on, in one text."""
    model: str
    """Name of the model, without its folder."""
    task: str
    """Task that defines the loss."""
    examples: int
    """Number of examples."""
    loss: float
    """Mean loss over everything that was predicted."""
    no_ops: tuple[NoOp, ...]
    """Correlations of attention with the reaction to it, for every site and special kind."""
    warnings: tuple[str, ...] = ()
    """Sentences about what was truncated."""
    timings: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each step."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the command; empty if it was measured in Python."""

    def to_json(self) -> dict[str, Any]:
        """The contents of `sensitivity.json`."""
        return encoded(self)

    @classmethod
    def read(cls, path: Path) -> "SensitivityRecord":
        """The record in a `sensitivity.json`.

        Raises:
            InputError: if there is no such file, or it is damaged or of a newer version.
        """
        return JsonObject.read_sealed(path, "headcount sensitivity").decode(cls)


@final
@dataclass(frozen=True)
class Sensitivity:
    """How the loss reacts to attention on every kind of token, by head and layer."""

    rows: tuple[SensitivityRow, ...]
    """Every number."""
    record: SensitivityRecord

    def layers(self, metric: str, kind: str) -> tuple[SensitivityRow, ...]:
        """The rows of all layers for a metric and a kind of token, in order."""
        return tuple(
            row for row in self.rows if (row.head, row.metric, row.kind) == ("all", metric, kind)
        )

    def frame(self) -> pd.DataFrame:
        """The rows as a data frame."""
        return frame_of(SensitivityRow, self.rows)

    def write(self, folder: Path) -> None:
        """Write `sensitivity.parquet` and, last, `sensitivity.json`."""
        write_sealed(folder / RECORD, self.record, tables={ROWS: self.frame()})


def read_sensitivity(folder: Path) -> Sensitivity:
    """The sensitivity in a folder.

    Raises:
        InputError: if a file is missing, damaged or of a newer version.
    """
    record = SensitivityRecord.read(folder / RECORD)
    rows = read_rows(
        folder / ROWS, SensitivityRow, "how the loss reacts", "Run `headcount sensitivity` again."
    )
    return Sensitivity(rows, record)
