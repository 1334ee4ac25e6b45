"""Checkpoints of a training, one by one: `follow.parquet` and its record, `follow.json`."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, final

import pandas as pd

from headcount.core import reading
from headcount.results.claiming import FOLLOW_FILES
from headcount.results.importance import Correlation
from headcount.results.json_file import JsonObject, encoded, write_sealed

FOLLOW, FOLLOW_ROWS = FOLLOW_FILES[:2]


@final
@dataclass(frozen=True, kw_only=True)
class FollowedHead:
    """One head at one checkpoint."""

    checkpoint: str
    """Name of the checkpoint."""
    place: int
    """Place of the checkpoint in the order of the training, from 0."""
    head: str
    """Name of the head, e.g. `enc.3.7`."""
    importance: float
    """Mean of the importance on both halves of the data."""
    first_half: float
    """Importance on the examples with even numbers."""
    second_half: float
    """Importance on the examples with odd numbers."""
    confidence: float
    """Mean over queries of the largest attention weight."""
    roles: tuple[str, ...]
    """Names of the head's roles."""
    tendencies: tuple[str, ...]
    """Names of the traits that are tendencies."""


@final
@dataclass(frozen=True, kw_only=True)
class FollowedCheckpoint:
    """The numbers of one checkpoint."""

    name: str
    """Name of its folder."""
    step: int | None
    """Number of updates before it; None if some checkpoint of the list does not carry one."""
    loss: float
    """Loss of the dense model."""
    score: float
    """Score of the dense model; NaN if scores were not measured."""
    correlation: Correlation
    """Spearman's correlation of importance with that of the last checkpoint."""
    across_halves: float
    """The same between importance on one half of the data here and on the other half there, mean of
    both ways. Its value at the last checkpoint is the most that noise allows."""
    confidence: float
    """Mean confidence of the heads."""
    confidence_low: float
    """Lower quartile of the heads' confidence."""
    confidence_high: float
    """Upper quartile of the heads' confidence."""
    prunable: float
    """Share of the heads that can be pruned within the stated loss, least important first by the
    half of the examples that does not measure the loss."""
    prunable_low: float
    """Lower end of its 95 % interval over resampled examples."""
    prunable_high: float
    """Upper end of that interval."""
    losses: Mapping[int, float]
    """Loss by number of pruned heads, for every number that was tried; each half of the examples
    without the heads that are least important on the other half."""
    roles: Mapping[str, int]
    """Number of heads with each role."""
    tendencies: Mapping[str, int]
    """Number of heads with each tendency."""


@final
@dataclass(frozen=True, kw_only=True)
class FollowRecord:
    """Facts about the checkpoints that the table of heads does not hold."""

    task: str
    """Name of the task."""
    metric: str
    """Name of the score."""
    method: str
    """Method that scored the heads."""
    within: float
    """Rise of the loss, as a share of the dense model's, within which heads can be pruned."""
    num_examples: int
    """Number of examples of the task."""
    heads: Mapping[str, tuple[int, ...]]
    """Number of heads in each layer, by site."""
    corpora: tuple[str, ...]
    """Files that roles were measured on; empty if these are the texts of the task."""
    checkpoints: tuple[FollowedCheckpoint, ...]
    """The checkpoints in the order of the training."""
    signature: str
    """Last checkpoint, data, options and versions that the numbers depend on, in one text."""
    sentences: tuple[str, ...] = ()
    """Findings in words."""
    warnings: tuple[str, ...] = ()
    """Sentences about what limits the numbers."""
    timings: Mapping[str, float] = field(default_factory=dict)
    """Seconds for each checkpoint."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of Python and of the packages that the numbers depend on."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the command; empty if it was run in Python."""

    def to_json(self) -> dict[str, Any]:
        """The contents of `follow.json`."""
        return encoded(self)

    @classmethod
    def read(cls, path: Path) -> "FollowRecord":
        """The record in a `follow.json`.

        Raises:
            InputError: if there is no such file, or it is damaged or of a newer version.
        """
        return JsonObject.read_sealed(path, "headcount follow").decode(cls)


@final
@dataclass(frozen=True)
class Followed:
    """A training, checkpoint by checkpoint."""

    rows: tuple[FollowedHead, ...]
    """A row for each checkpoint and head."""
    record: FollowRecord
    """The numbers of each checkpoint, and facts about the run."""

    def frame(self) -> pd.DataFrame:
        """The rows as a data frame: `checkpoint place head importance ... roles tendencies`."""
        names = [each.name for each in fields(FollowedHead)]
        return pd.DataFrame([asdict(row) for row in self.rows], columns=names)

    def write(self, folder: Path) -> None:
        """Write the table and, last, the record."""
        write_sealed(folder / FOLLOW, self.record, tables={FOLLOW_ROWS: self.frame()})


def read_followed(folder: Path) -> Followed:
    """The numbers in a folder.

    Raises:
        InputError: if a file is missing or damaged.
    """
    record = FollowRecord.read(folder / FOLLOW)
    path = folder / FOLLOW_ROWS
    with reading(path, "the heads of some checkpoints", "Run `headcount follow` again."):
        rows = tuple(_row(row) for row in pd.read_parquet(path).to_dict("records"))
    return Followed(rows, record)


def _row(row: Mapping[Any, Any]) -> FollowedHead:
    return FollowedHead(**{str(name): _cell(str(name), value) for name, value in row.items()})


def _cell(name: str, value: Any) -> Any:
    if name in ("roles", "tendencies"):
        return tuple(map(str, value))
    if name in ("checkpoint", "head"):
        return str(value)
    if name == "place":
        return int(value)
    return math.nan if value is None else float(value)
