"""The speed of a pruned model beside the dense one, as `prune.json` and `speed.json` hold it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from headcount.core import JsonObject, OwnJson


@final
@dataclass(frozen=True)
class Speedup:
    """A ratio of times with its 95 % interval."""

    value: float
    low: float
    high: float


@final
@dataclass(frozen=True)
class SpeedCase:
    """The measured speedup of one case."""

    mode: str
    """`forward` or `generate`."""
    batch: int
    """Number of examples in a batch."""
    length: int
    """Number of tokens in an example."""
    new_tokens: int
    """Number of tokens to generate; 0 in a forward pass."""
    speedup: Speedup
    """Time of the dense model divided by that of the pruned one."""
    ceiling: float
    """Largest speedup if time is proportional to FLOPs."""


@final
@dataclass(frozen=True)
class SpeedRecord(OwnJson):
    """The speed of a pruned model beside the dense one."""

    cases: tuple[SpeedCase, ...]
    """Every case that was timed."""
    warnings: tuple[str, ...]
    """A sentence for every speedup that is not reliable."""
    numbers: Mapping[str, Any]
    """Everything that was measured, as in `speed.json`."""

    @classmethod
    def of(cls, numbers: Mapping[str, Any]) -> "SpeedRecord":
        """The speed that was just measured, from the contents of `speed.json`."""
        return cls.from_json(JsonObject.of(numbers, "the measured speed", "headcount speed"))

    def to_json(self) -> Mapping[str, Any]:
        """The contents of `speed.json`."""
        return self.numbers

    @classmethod
    def from_json(cls, found: JsonObject) -> "SpeedRecord":
        """The speed in a `prune.json` or `speed.json`."""
        cases, warnings = (
            found.field("cases", tuple[SpeedCase, ...]),
            found.field("warnings", tuple[str, ...]),
        )
        return cls(cases, warnings, found.values)
