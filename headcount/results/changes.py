"""Changes: the numbers of two models on one data set, side by side."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar, final

from headcount.core import JsonObject

T = TypeVar("T")

DATA_SETS = ("dev", "test")
"""Names of the data sets that a new model is measured on."""


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
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of `change`."""
        return (-self.high, -self.low) if self.higher_is_better else (self.low, self.high)

    def __str__(self) -> str:
        """The drop of a score, or the rise of a number that is better where it is lower.

        >>> str(MetricChange("bleu", True, 30.0, 29.5, 0.5, 0.25, 0.75, 0.01))
        'drop 0.5, 95 % 0.25 to 0.75'
        """
        reported = f"{'drop' if self.higher_is_better else 'rise'} {self.drop:.3g}"
        if math.isnan(self.low):  # a single example has no interval
            return reported
        return f"{reported}, 95 % {self.low:.3g} to {self.high:.3g}"


@final
@dataclass(frozen=True)
class SliceChange:
    """Score and loss of two models on some examples of a data set."""

    examples: int
    """Number of examples."""
    score: MetricChange
    """The task's score."""
    loss: MetricChange
    """The mean loss over everything that was predicted."""

    def to_json(self) -> dict[str, Any]:
        """The numbers as in `prune.json`."""
        return {"examples": self.examples, **numbers_json(self)}


@final
@dataclass(frozen=True)
class DataSetChange:
    """Score and loss of two models on a data set, also slice by slice."""

    examples: int
    """Number of examples."""
    score: MetricChange
    """The task's score."""
    loss: MetricChange
    """The mean loss over everything that was predicted."""
    slices: Mapping[str, SliceChange] = field(default_factory=dict)
    """The same numbers over a third of the examples each, by the slice's name."""

    def to_json(self) -> dict[str, Any]:
        """The numbers as in `prune.json`."""
        return {
            "metric": self.score.name,
            "higher_is_better": self.score.higher_is_better,
            "examples": self.examples,
            **numbers_json(self),
            "slices": {name: each.to_json() for name, each in self.slices.items()},
        }

    @classmethod
    def from_json(cls, found: JsonObject) -> "DataSetChange":
        """The numbers in `prune.json` or `finetune.json`.

        Raises:
            InputError: If a field is missing or has another type; the error names it.
        """
        metric, higher = found.field("metric", str), found.field("higher_is_better", bool)
        whole = slice_from_json(found, metric, higher, found.field("examples", int))
        slices = found.field("slices", Mapping[str, JsonObject])
        parts = {
            name: slice_from_json(part, metric, higher, part.field("examples", int))
            for name, part in slices.items()
        }
        return cls(whole.examples, whole.score, whole.loss, parts)


def p_beside(p: float, low: float, high: float) -> float:
    """The p-value, or NaN if it contradicts the interval it stands beside.

    Only records of earlier versions hold such pairs, which came from different tests.

    >>> p_beside(0.04, 0.1, 0.3), p_beside(0.04, -0.1, 0.3)
    (0.04, nan)
    """
    return math.nan if p < 0.05 and low <= 0 <= high else p


def by_data_set(found: JsonObject, read: Callable[[JsonObject], T]) -> dict[str, T]:
    """What a reader makes of the numbers on each data set that a record has, by its name."""
    return {name: read(found.field(name, JsonObject)) for name in DATA_SETS if name in found}


def numbers_json(found: SliceChange | DataSetChange) -> dict[str, Any]:
    """Score and loss, with the score's drop and the loss's rise, as in `prune.json`."""
    score, loss = found.score, found.loss
    return {
        "score": asdict(_Ends(score.before, score.after)),
        "loss": asdict(_Ends(loss.before, loss.after)),
        "drop": asdict(_Delta(score.drop, score.low, score.high, score.p)),
        "rise": asdict(_Delta(loss.drop, loss.low, loss.high, loss.p)),
    }


def slice_from_json(
    found: JsonObject, metric: str, higher_is_better: bool, examples: int
) -> SliceChange:
    """The numbers that `numbers_json` gives.

    Args:
        found: The object with the numbers.
        metric: Name of the score.
        higher_is_better: Whether a better model has a higher score.
        examples: Number of examples.

    Raises:
        InputError: If a field is missing or has another type; the error names it.
    """
    return SliceChange(
        examples,
        _change(metric, higher_is_better, found, "score", "drop"),
        _change("loss", False, found, "loss", "rise"),
    )


def _change(
    name: str, higher_is_better: bool, found: JsonObject, ends: str, delta: str
) -> MetricChange:
    both, drop = found.field(ends, _Ends), found.field(delta, _Delta)
    return MetricChange(
        name=name,
        higher_is_better=higher_is_better,
        before=both.before,
        after=both.after,
        drop=drop.delta,
        low=drop.low,
        high=drop.high,
        p=drop.p,
    )


@final
@dataclass(frozen=True)
class _Ends:
    before: float
    after: float


@final
@dataclass(frozen=True)
class _Delta:
    delta: float
    low: float
    high: float
    p: float
