"""The speed of a pruned model beside the dense one, as `prune.json` and `speed.json` hold it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from headcount.core import JsonObject


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
    speedup: float
    """Time of the dense model divided by that of the pruned one."""
    low: float
    """Lower end of the 95 % interval of `speedup`."""
    high: float
    """Upper end of that interval."""
    ceiling: float
    """Largest speedup if time is proportional to FLOPs."""

    @classmethod
    def from_json(cls, found: JsonObject) -> "SpeedCase":
        """A case in a `prune.json` or `speed.json`.

        Raises:
            InputError: If a field is missing or has another type; the error names it.
        """
        speedup = found.field("speedup", JsonObject)
        return cls(
            mode=found.field("mode", str),
            batch=found.field("batch", int),
            length=found.field("length", int),
            new_tokens=found.field("new_tokens", int),
            speedup=speedup.field("value", float),
            low=speedup.field("low", float),
            high=speedup.field("high", float),
            ceiling=found.field("ceiling", float),
        )


@final
@dataclass(frozen=True)
class SpeedRecord:
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

    @classmethod
    def from_json(cls, found: JsonObject) -> "SpeedRecord":
        """The speed in a `prune.json` or `speed.json`.

        Raises:
            InputError: If a field is missing or has another type; the error names it.
        """
        cases = tuple(map(SpeedCase.from_json, found.field("cases", tuple[JsonObject, ...])))
        return cls(cases, found.field("warnings", tuple[str, ...]), found.values)
