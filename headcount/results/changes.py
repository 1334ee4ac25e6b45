"""Changes: the numbers of two models on one data set, side by side."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

from headcount.core import JsonObject, OwnJson, encoded, stored

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


@final
@dataclass(frozen=True)
class DataSetChange(OwnJson):
    """Score and loss of two models on a data set, also slice by slice."""

    examples: int
    """Number of examples."""
    score: MetricChange
    """The task's score."""
    loss: MetricChange
    """The mean loss over everything that was predicted."""
    slices: Mapping[str, SliceChange] = field(default_factory=dict)
    """The same numbers over a third of the examples each, by the slice's name."""

    def to_json(self) -> "_DataSet":
        """The numbers as in `prune.json` and `finetune.json`."""
        return _DataSet(
            metric=self.score.name,
            higher_is_better=self.score.higher_is_better,
            whole=_Slice.of(self),
            slices={name: _Slice.of(each) for name, each in self.slices.items()},
        )

    @classmethod
    def from_json(cls, found: JsonObject) -> "DataSetChange":
        """The numbers in `prune.json` or `finetune.json`."""
        its = found.decode(_DataSet)
        whole, *slices = (
            each.numbers.change(each.examples, its.metric, its.higher_is_better)
            for each in (its.whole, *its.slices.values())
        )
        parts = dict(zip(its.slices, slices, strict=True))
        return cls(whole.examples, whole.score, whole.loss, parts)


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
        return {**encoded(self.trained), "pruned": higher | encoded(_Numbers.of(self.pruned))}

    @classmethod
    def from_json(cls, found: JsonObject) -> "ControlChange":
        """The numbers in `prune.json`."""
        trained, beside = DataSetChange.from_json(found), found.field("pruned", _Numbers)
        score = trained.score
        return cls(trained, beside.change(trained.examples, score.name, score.higher_is_better))


def p_beside(p: float, low: float, high: float) -> float:
    """The p-value, or NaN if it contradicts the interval it stands beside.

    Only records of earlier versions hold such pairs, which came from different tests.

    >>> p_beside(0.04, 0.1, 0.3), p_beside(0.04, -0.1, 0.3)
    (0.04, nan)
    """
    return math.nan if p < 0.05 and low <= 0 <= high else p


@final
@dataclass(frozen=True)
class _Ends:
    before: float
    after: float


@final
@dataclass(frozen=True, kw_only=True)
class _Delta:
    drop: float = stored("delta")
    low: float
    high: float
    p: float

    @classmethod
    def of(cls, found: MetricChange) -> "_Delta":
        return cls(drop=found.drop, low=found.low, high=found.high, p=found.p)


@final
@dataclass(frozen=True)
class _Numbers:
    """Score and loss, with the score's drop and the loss's rise, as files hold them."""

    score: _Ends
    loss: _Ends
    drop: _Delta
    rise: _Delta

    @classmethod
    def of(cls, found: SliceChange | DataSetChange) -> "_Numbers":
        score, loss = found.score, found.loss
        return cls(
            score=_Ends(score.before, score.after),
            loss=_Ends(loss.before, loss.after),
            drop=_Delta.of(score),
            rise=_Delta.of(loss),
        )

    def change(self, examples: int, metric: str, higher_is_better: bool) -> SliceChange:
        return SliceChange(
            examples,
            MetricChange(metric, higher_is_better, **vars(self.score), **vars(self.drop)),
            MetricChange("loss", False, **vars(self.loss), **vars(self.rise)),
        )


@final
@dataclass(frozen=True)
class _Slice:
    examples: int
    numbers: _Numbers = stored(flat=())

    @classmethod
    def of(cls, found: SliceChange | DataSetChange) -> "_Slice":
        return cls(found.examples, _Numbers.of(found))


@final
@dataclass(frozen=True, kw_only=True)
class _DataSet:
    metric: str
    higher_is_better: bool
    whole: _Slice = stored(flat=())
    slices: Mapping[str, _Slice]
