"""Costs: what a smaller model takes beside the dense one, as `prune.json` holds it.

The bytes of its weights and of its key/value cache, its FLOPs, and its measured times.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from headcount.core import JsonObject, OwnJson, amount


@final
@dataclass(frozen=True)
class CachePart:
    """A part of the cache: all layers of one kind."""

    site: str
    """`decoder.self`, whose cache grows with every token read or written; or `decoder.cross`, whose
    cache grows with the source."""
    window: int | None
    """Largest number of tokens that these layers keep, by their sliding window; None for all."""
    bytes_per_token: int
    """Bytes of the keys and values of one token, summed over the layers."""


@final
@dataclass(frozen=True)
class CacheRecord:
    """The key/value cache of a dense and of a pruned model, in the same number format."""

    dtype: str
    """Number format of the keys and values, e.g. `float32`."""
    dense: tuple[CachePart, ...]
    """Parts of the dense model's cache."""
    pruned: tuple[CachePart, ...]
    """Parts of the pruned model's cache; a part without heads is missing."""

    @property
    def sentence(self) -> str:
        """The cost of a token before and after."""
        parts = [
            f"{name}: {before:,} before, {after:,} after"
            for name, before, after in cache_rows(self.dense, self.pruned)
        ]
        return f"Key/value cache in {self.dtype}, {'; '.join(parts)}."


def cache_rows(
    dense: Sequence[CachePart], pruned: Sequence[CachePart]
) -> list[tuple[str, int, int]]:
    """Every part in words, with the bytes a token of the dense and of the pruned model.

    >>> cache_rows([CachePart("decoder.self", 512, 96)], [])
    [('bytes a token, for the last 512 tokens', 96, 0)]
    """
    both = [
        {(each.site, each.window): each.bytes_per_token for each in parts}
        for parts in (dense, pruned)
    ]
    return [
        (_words(*place), both[0].get(place, 0), both[1].get(place, 0))
        for place in dict.fromkeys((*both[0], *both[1]))
    ]


def _words(site: str, window: int | None) -> str:
    token = "source token" if site == "decoder.cross" else "token"
    return f"bytes a {token}" + (
        "" if window is None else f", for the last {amount(window, 'token')}"
    )


@final
@dataclass(frozen=True)
class SizeRecord:
    """The weights of a dense and of a pruned model, in the same number format."""

    dtype: str
    """Number format of the weights, e.g. `float32`."""
    dense: int
    """Bytes of the dense model's weights; shared ones are counted once."""
    pruned: int
    """Bytes of the pruned model's weights."""

    @property
    def share(self) -> float:
        """Bytes of the pruned model's weights as a share of the dense model's."""
        return self.pruned / self.dense


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

    @property
    def size(self) -> str:
        """Length in words, with the tokens to generate."""
        return size_of_case(self.length, self.new_tokens)


def size_of_case(length: int, new_tokens: int) -> str:
    """Length of a timed case in words, with the tokens to generate."""
    if not new_tokens:
        return amount(length, "token")
    return f"{length} + {amount(new_tokens, 'token')}"


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
        cases = found.field("cases", tuple[SpeedCase, ...])
        return cls(cases, found.field("warnings", tuple[str, ...]), found.values)


@final
@dataclass(frozen=True)
class CeilingRecord:
    """The largest possible speedup of one forward pass, by its FLOPs."""

    tokens: int
    """Number of tokens of the forward pass."""
    value: float
    """FLOPs of the dense model divided by those of the pruned one."""
