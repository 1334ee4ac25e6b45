"""What followed the choice of heads, as `prune.json` holds it: stages, limit and control."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from headcount.core import omitted, stored
from headcount.results.changes import DATA_SETS, ControlChange


@final
@dataclass(frozen=True)
class StageResult:
    """Effect of one stage, or of one way to compensate, on the loss on the development set."""

    stage: str
    """Name of the stage, e.g. `folding`."""
    before: float
    """Loss before the stage."""
    after: float
    """Loss after it."""
    kept: bool = True
    """Whether the final model includes it."""


@final
@dataclass(frozen=True)
class Calibration:
    """The data that folding and rescaling were fitted on."""

    data: str
    """Hash of the training data."""
    examples: int
    """Number of examples used."""
    queries: int
    """Number of queries in the layer that had the most."""


@final
@dataclass(frozen=True)
class RecoveryRecord:
    """What was recorded of the recovery training."""

    history: tuple[Mapping[str, Any], ...]
    """Log entries of the training."""


@final
@dataclass(frozen=True)
class StagesRecord:
    """Facts about the stages after the choice of heads."""

    calibration: Calibration | None = omitted(None)
    """The data for folding and rescaling; None if neither was asked for."""
    recovery: RecoveryRecord | None = omitted(None)
    """The recovery training; None without recovery."""


@final
@dataclass(frozen=True, kw_only=True)
class ControlTraining:
    """One training of the control, the counterpart of a training of the pruned model."""

    settings: Mapping[str, Any] = stored(flat=())
    """All fields of the training's settings, by name."""
    taught: bool
    """Whether the pruned model had a teacher in this training."""
    kept: bool
    """Whether the control kept the trained weights."""


@final
@dataclass(frozen=True)
class ControlRecord:
    """The control: the dense model, trained in the same ways, for as many updates."""

    trainings: tuple[ControlTraining, ...]
    """Its trainings, in order."""
    data_sets: Mapping[str, ControlChange] = stored(flat=DATA_SETS)
    """Its numbers by the data set's name: `dev`, and `test` if there is a test set."""


@final
@dataclass(frozen=True, kw_only=True)
class PipelineRecord:
    """What followed the choice of heads."""

    stages: tuple[StageResult, ...] = stored("gains")
    """Every stage, or way to compensate, that was tried."""
    facts: StagesRecord = stored("stages")
    """The data and trainings of these stages."""
    within_limit: Mapping[str, bool] | None = None
    """Whether the final model meets the drop on each data set, or the latency; None if the budget
    was not searched."""
    latency_ms: float | None = None
    """Latency of the final model in milliseconds; None unless the budget was a latency."""
    control: ControlRecord | None = None
    """The control; None if nothing was trained, or no control was wanted."""
    seconds: float
    """Duration of everything, in seconds."""
