"""The record of an evaluation, and changes: numbers of two models on one data set, side by side."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

from headcount import numbers
from headcount.core import JsonObject, OwnJson, encoded, stored
from headcount.results.sealing import OWN, SEALS
from headcount.results.store import Record

_FIELDS = (
    *("version", "examples", "loss", "truncated", "signature", "warnings", "arguments"),
    *(SEALS, OWN),
)


@final
@dataclass(frozen=True, kw_only=True)
class EvaluationRecord(Record):
    """How good a model is at a task."""

    FILE = "evaluation.json"
    COMMAND = "headcount evaluate"
    TEXTS = ("translations.txt", "transcripts.txt")
    """Files of what a model writes, a line each."""

    num_examples: int
    """Number of examples."""
    loss: float
    """Loss in nats per token."""
    scores: Mapping[str, float]
    """Scores by name, that of the task first."""
    score_signatures: Mapping[str, str] = field(default_factory=dict)
    """Signatures of the scores that have one, by name."""
    num_truncated: int = 0
    """Number of translations that were truncated."""

    def numbers(self) -> dict[str, int | float | str]:
        """Everything but the arguments, by the names in the file."""
        found: dict[str, int | float | str] = {"examples": self.num_examples, "loss": self.loss}
        for name, score in self.scores.items():
            found[name] = score
            if name in self.score_signatures:
                found[f"{name} signature"] = self.score_signatures[name]
        if self.num_truncated:
            found["truncated"] = self.num_truncated
        return found | {"signature": self.signature}

    def to_json(self) -> dict[str, Any]:
        """The contents of `evaluation.json`: each score is a field with its own name."""
        shared = {"warnings": self.warnings, "arguments": self.arguments}
        return encoded({**self.numbers(), **shared})

    @classmethod
    def from_json(cls, found: JsonObject) -> "EvaluationRecord":
        """The record in the contents of its file; numbers with other names are scores."""
        stored = found.decode(_Stored)
        others = {name: each for name, each in found.values.items() if name not in _FIELDS}
        signatures = {
            name.removesuffix(" signature"): each
            for name, each in others.items()
            if name.endswith(" signature") and isinstance(each, str)
        }
        scores = {
            name: found.field(name, float)
            for name, each in others.items()
            if each is None or (isinstance(each, int | float) and not isinstance(each, bool))
        }
        return cls(
            num_examples=stored.examples,
            loss=stored.loss,
            scores=scores,
            score_signatures=signatures,
            num_truncated=stored.truncated,
            signature=stored.signature,
            warnings=stored.warnings,
            arguments=stored.arguments,
        )


@final
@dataclass(frozen=True, kw_only=True)
class _Stored:
    """The fields whose names do not depend on the task."""

    examples: int
    loss: float
    truncated: int = 0
    signature: str
    warnings: tuple[str, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)


DATA_SETS = ("dev", "test")
"""Names of the data sets that a new model is measured on; the last that there is counts most."""


@final
@dataclass(frozen=True)
class MetricChange:
    """A score or a loss of two models on the same examples."""

    name: str
    """`loss`, or the name of the score, e.g. `bleu`."""
    higher_is_better: bool
    """Whether a better model has a higher number."""
    before: float
    """The first model's number."""
    after: float
    """The second model's number."""
    drop: float
    """How much worse the second model is, in the number's unit; negative if it is better."""
    low: float
    """Lower end of the 95 % interval of `drop`; NaN if there is a single example."""
    high: float
    """Upper end of that interval."""
    p: float
    """Two-sided p-value of no difference; NaN if it was not tested."""

    @property
    def change(self) -> float:
        """The second model's number minus the first one's."""
        return self.after - self.before

    @property
    def largest_drop(self) -> float:
        """Upper end of the interval of `drop`; `drop` itself where that is unknown."""
        return self.drop if math.isnan(self.high) else self.high

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of `change`."""
        return (-self.high, -self.low) if self.higher_is_better else (self.low, self.high)

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        """Both numbers, the change with its 95 % interval, and p, as tables show them."""
        return (
            numbers.effect(self.before),
            numbers.effect(self.after),
            numbers.change(self.change),
            numbers.ends(*self.interval, numbers.effect),
            numbers.probability(p_beside(self.p, self.low, self.high)),
        )

    def __str__(self) -> str:
        """The change with its sign and its interval, as cards and tables show it.

        >>> str(MetricChange("bleu", True, 30.0, 29.5, 0.5, 0.25, 0.75, 0.01))
        '−0.500; 95 %: −0.750 to −0.250'
        """
        if math.isnan(self.low):  # a single example has no interval
            return numbers.change(self.change)
        low, high = map(numbers.change, self.interval)
        return f"{numbers.change(self.change)}; 95 %: {low} to {high}"


@dataclass(frozen=True)
class SliceChange:
    """Score and loss of two models on some examples of a data set."""

    examples: int
    """Number of examples."""
    score: MetricChange
    """The task's score."""
    loss: MetricChange
    """The mean loss over everything that was predicted."""


@final
@dataclass(frozen=True)
class DataSetChange(SliceChange, OwnJson):
    """Score and loss of two models on a data set, also slice by slice."""

    slices: Mapping[str, SliceChange] = field(default_factory=dict)
    """The same numbers over a third of the examples each, by the slice's name."""

    def to_json(self) -> dict[str, Any]:
        """The numbers as in `prune.json` and `finetune.json`."""
        return {
            "metric": self.score.name,
            "higher_is_better": self.score.higher_is_better,
            "examples": self.examples,
            **_numbers(self),
            "slices": {
                name: {"examples": each.examples, **_numbers(each)}
                for name, each in self.slices.items()
            },
        }

    @classmethod
    def from_json(cls, found: JsonObject) -> "DataSetChange":
        """The numbers in `prune.json` or `finetune.json`."""
        metric, higher = found.field("metric", str), found.field("higher_is_better", bool)
        whole = _change(found, found.field("examples", int), metric, higher)
        slices = {
            name: _change(each, each.field("examples", int), metric, higher)
            for name, each in found.field("slices", Mapping[str, JsonObject]).items()
        }
        return cls(whole.examples, whole.score, whole.loss, slices)


@final
@dataclass(frozen=True)
class ControlChange(OwnJson):
    """The control on one data set, beside the dense and the pruned model."""

    trained: DataSetChange
    """The change from the dense model to the control."""
    pruned: SliceChange
    """The change from the control to the pruned model."""

    def to_json(self) -> dict[str, Any]:
        """The numbers as in `prune.json`."""
        higher = {"higher_is_better": self.pruned.score.higher_is_better}
        return {**self.trained.to_json(), "pruned": {**higher, **_numbers(self.pruned)}}

    @classmethod
    def from_json(cls, found: JsonObject) -> "ControlChange":
        """The numbers in `prune.json`."""
        trained, beside = DataSetChange.from_json(found), found.field("pruned", JsonObject)
        score = trained.score
        return cls(trained, _change(beside, trained.examples, score.name, score.higher_is_better))


def p_beside(p: float, low: float, high: float) -> float:
    """The p-value, or NaN if it contradicts its interval.

    Only records of earlier versions hold such pairs, which came from different tests.

    >>> p_beside(0.04, 0.1, 0.3), p_beside(0.05, -0.1, 0.3), p_beside(0.04, -0.1, 0.3)
    (0.04, 0.05, nan)
    >>> p_beside(0.04, 0.0, 0.3), p_beside(0.04, -0.3, 0.0), p_beside(0.04, -0.3, -0.1)
    (nan, nan, 0.04)
    """
    return math.nan if p < 0.05 and low <= 0 <= high else p


_ENDS, _DELTA = ("before", "after"), ("delta", "low", "high", "p")
"""Names in files of the numbers of a change: of its ends, and of what lies between them."""


def _numbers(found: SliceChange) -> dict[str, dict[str, float]]:
    """Score and loss, with the score's drop and the loss's rise, as files hold them."""
    score, loss = found.score, found.loss
    ends = {name: (each.before, each.after) for name, each in (("score", score), ("loss", loss))}
    delta = {
        name: (each.drop, each.low, each.high, each.p)
        for name, each in (("drop", score), ("rise", loss))
    }
    return {name: dict(zip(_ENDS, each, strict=True)) for name, each in ends.items()} | {
        name: dict(zip(_DELTA, each, strict=True)) for name, each in delta.items()
    }


def _change(found: JsonObject, examples: int, metric: str, higher_is_better: bool) -> SliceChange:
    """What `_numbers` gives, of a score with a name and a direction."""

    def change(name: str, higher: bool, ends: str, delta: str) -> MetricChange:
        both, drop = found.field(ends, JsonObject), found.field(delta, JsonObject)
        numbers = [*(both.field(each, float) for each in _ENDS)]
        numbers += [drop.field(each, float) for each in _DELTA]
        return MetricChange(name, higher, *numbers)

    return SliceChange(
        examples,
        change(metric, higher_is_better, "score", "drop"),
        change("loss", False, "loss", "rise"),
    )


@final
@dataclass(frozen=True)
class FinetuneChange:
    """A model that was trained further, on one data set."""

    trained: DataSetChange = stored(flat=())
    """The change from the given to the trained model."""
    teacher: DataSetChange | None = None
    """The change from the teacher to the trained model; None without a teacher."""


@final
@dataclass(frozen=True, kw_only=True)
class FinetuneRecord(Record):
    """How a model was trained further, and every number before and after."""

    FILE = "finetune.json"
    COMMAND = "headcount finetune"
    FOLDER = "the folder of a fine-tuned model"
    DESCRIBES = ("*.safetensors",)

    data_sets: Mapping[str, FinetuneChange] = stored(flat=DATA_SETS)
    """Numbers before and after, by the data set's name: `dev` and `test`."""
    tuning: Mapping[str, Any]
    """All fields of the training's settings, by name."""
    history: tuple[Mapping[str, Any], ...] = ()
    """Log entries of the training."""
