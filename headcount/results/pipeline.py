"""What followed the choice of heads, as `prune.json` holds it: stages, limit and control."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, final

from headcount.core import JsonObject
from headcount.results.changes import (
    DataSetChange,
    SliceChange,
    by_data_set,
    numbers_json,
    slice_from_json,
)


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
class StagesRecord:
    """Facts about the stages after the choice of heads."""

    calibration: Calibration | None = None
    """The data for folding and rescaling; None if neither was asked for."""
    recovery: tuple[Mapping[str, Any], ...] | None = None
    """Log entries of the recovery training; None without recovery."""

    def to_json(self) -> dict[str, Any]:
        """The facts as in `prune.json`."""
        found: dict[str, Any] = {}
        if self.calibration is not None:
            found["calibration"] = asdict(self.calibration)
        if self.recovery is not None:
            found["recovery"] = {"history": list(self.recovery)}
        return found

    @classmethod
    def from_json(cls, found: JsonObject) -> "StagesRecord":
        """The facts in a `prune.json`.

        Raises:
            InputError: If a field is missing or has another type; the error names it.
        """
        recovery = found.optional("recovery", JsonObject)
        return cls(
            found.optional("calibration", Calibration),
            recovery and recovery.field("history", tuple[Mapping[str, Any], ...]),
        )


@final
@dataclass(frozen=True)
class ControlTraining:
    """One training of the control, the counterpart of a training of the pruned model."""

    settings: Mapping[str, Any]
    """All fields of the training's settings, by name."""
    taught: bool
    """Whether the pruned model had a teacher in this training."""
    kept: bool
    """Whether the control kept the trained weights."""


@final
@dataclass(frozen=True)
class ControlChange:
    """The control on one data set, beside the dense and the pruned model."""

    trained: DataSetChange
    """The change from the dense model to the control."""
    pruned: SliceChange
    """The change from the control to the pruned model."""


@final
@dataclass(frozen=True)
class ControlRecord:
    """The control: the dense model, trained in the same ways, for as many updates."""

    trainings: tuple[ControlTraining, ...]
    """Its trainings, in order."""
    data_sets: Mapping[str, ControlChange]
    """Its numbers by the data set's name: `dev`, and `test` if there is a test set."""

    def to_json(self) -> dict[str, Any]:
        """The control as in `prune.json`."""
        trainings = [
            {**each.settings, "taught": each.taught, "kept": each.kept} for each in self.trainings
        ]
        return {
            "trainings": trainings,
            **{name: _control_json(each) for name, each in self.data_sets.items()},
        }

    @classmethod
    def from_json(cls, found: JsonObject) -> "ControlRecord":
        """The control in a `prune.json`.

        Raises:
            InputError: If a field is missing or has another type; the error names it.
        """
        trainings = tuple(
            ControlTraining(_settings(each), each.field("taught", bool), each.field("kept", bool))
            for each in found.field("trainings", tuple[JsonObject, ...])
        )
        return cls(trainings, by_data_set(found, _control_change))


@final
@dataclass(frozen=True)
class PipelineRecord:
    """What followed the choice of heads."""

    stages: tuple[StageResult, ...]
    """Every stage, or way to compensate, that was tried."""
    facts: StagesRecord
    """The data and trainings of these stages."""
    within_limit: Mapping[str, bool] | None
    """Whether the final model meets the drop on each data set, or the latency; None if the budget
    was not searched."""
    latency_ms: float | None
    """Latency of the final model in milliseconds; None unless the budget was a latency."""
    control: ControlRecord | None
    """The control; None if nothing was trained, or no control was wanted."""
    seconds: float
    """Duration of everything, in seconds."""

    def to_json(self) -> dict[str, Any]:
        """The pipeline as in `prune.json`."""
        return {
            "gains": [asdict(each) for each in self.stages],
            "stages": self.facts.to_json(),
            "within_limit": self.within_limit,
            "latency_ms": self.latency_ms,
            "control": self.control and self.control.to_json(),
            "seconds": self.seconds,
        }

    @classmethod
    def from_json(cls, found: JsonObject) -> "PipelineRecord":
        """The pipeline in a `prune.json`.

        Raises:
            InputError: If a field is missing or has another type; the error names it.
        """
        control = found.optional("control", JsonObject)
        return cls(
            stages=found.field("gains", tuple[StageResult, ...]),
            facts=StagesRecord.from_json(found.field("stages", JsonObject)),
            within_limit=found.optional("within_limit", Mapping[str, bool]),
            latency_ms=found.optional("latency_ms", float),
            control=control and ControlRecord.from_json(control),
            seconds=found.field("seconds", float),
        )


def _settings(found: JsonObject) -> dict[str, Any]:
    own = ("taught", "kept")
    return {name: each for name, each in found.values.items() if name not in own}


def _control_json(found: ControlChange) -> dict[str, Any]:
    higher = found.pruned.score.higher_is_better
    beside = {"higher_is_better": higher, **numbers_json(found.pruned)}
    return found.trained.to_json() | {"pruned": beside}


def _control_change(found: JsonObject) -> ControlChange:
    trained, pruned = DataSetChange.from_json(found), found.field("pruned", JsonObject)
    higher = pruned.field("higher_is_better", bool)
    beside = slice_from_json(pruned, trained.score.name, higher, trained.examples)
    return ControlChange(trained, beside)
