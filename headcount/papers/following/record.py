"""Following a training: its options, `follow.parquet`, and its record, `follow.json`.

Needs no torch.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from headcount.core import InputError, Seed, check_options
from headcount.importance import SCORES
from headcount.results import Correlation, Record, Result, table
from headcount.vocabulary import Thresholds


@final
@dataclass(frozen=True)
class FollowOptions:
    """Settings of `follow`, in Python and as options of the command."""

    method: str = "gradient"
    """Score of importance; gradient as in Michel et al. (2019)."""
    within: float = 0.05
    """Rise of the loss within which heads can be pruned, as a share of the dense model's loss."""
    scores: bool = True
    """Measure the task's score; translation writes texts for it, which takes longest."""
    seed: Seed = 0
    """Seed of the resamples."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    """Thresholds for assigning roles; the papers' values by default."""

    def __post_init__(self) -> None:
        SCORES.find(self.method)
        check_options(self)
        if not (self.within > 0 and math.isfinite(self.within)):
            raise InputError(
                f"Expected a finite rise of the loss above 0, got within={self.within}. Give 0.05 "
                "for 5 %."
            )


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
    both ways. Its value at the last checkpoint is an upper limit set by noise."""
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
class FollowRecord(Record):
    """Facts about the checkpoints that the table of heads does not hold."""

    FILE = "follow.json"
    COMMAND = "headcount follow"

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
    sentences: tuple[str, ...] = ()
    """Findings in words."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of Python and of the packages that the numbers depend on."""


@final
@dataclass(frozen=True)
class Followed(Result[FollowRecord]):
    """A training, checkpoint by checkpoint."""

    DOCUMENTS = ("follow.md", "follow.html")

    record: FollowRecord
    """The numbers of each checkpoint, and facts about the run."""
    rows: tuple[FollowedHead, ...] = table("follow.parquet", "the heads of some checkpoints")
    """A row for each checkpoint and head."""
