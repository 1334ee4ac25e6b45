"""Plan of a cache: which key/value groups keep all keys, and what the others keep."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, final

from headcount.core import InputError, JsonObject, amount, encoded, write_json

SINK, RECENT = 4, 128
"""Default numbers of first and of last tokens whose keys a streaming group keeps."""

VERSION = 1


class Group(NamedTuple):
    """A key/value group: the query heads of one layer that share keys and values; from 0."""

    layer: int
    """Number of the layer among those of `decoder.self`."""
    index: int
    """Number of the key/value head in the layer."""


@final
@dataclass(frozen=True)
class CachePlan:
    """Which key/value groups keep all keys; the others *stream*: they keep the first and the last.

    >>> plan = CachePlan(((True, False), (False, False)), sink=4, recent=128)
    >>> plan
    CachePlan(1 of 4 groups keeps all keys; 3 keep the first 4 and the last 128)
    >>> plan.streaming
    (Group(layer=0, index=1), Group(layer=1, index=0), Group(layer=1, index=1))
    """

    full: tuple[tuple[bool, ...], ...]
    """Whether a group keeps all keys, by layer of `decoder.self`, then group."""
    sink: int = SINK
    """Number of first tokens whose keys a streaming group keeps; padding on the left is none."""
    recent: int = RECENT
    """Number of last tokens whose keys a streaming group keeps; a token is one of its own."""
    model: str | None = None
    """`revision` of the model that the plan was made for; None fits any with these groups."""

    def __post_init__(self) -> None:
        """Check the sizes.

        Raises:
            InputError: for a size below 1, or a plan without a group.
        """
        for name in ("sink", "recent"):
            if (size := getattr(self, name)) < 1:
                raise InputError(
                    f"Expected `{name}` of a cache's plan to be a number of tokens from 1, got "
                    f"{size}. Without first tokens or its own, a head has nowhere to look."
                )
        if not any(self.full):
            raise InputError(
                "Expected the groups of a cache's plan by layer, such as ((True, False),), got "
                f"{self.full!r}. Name at least one group."
            )

    def __repr__(self) -> str:
        num_full, num_streaming = sum(map(sum, self.full)), len(self.streaming)
        keeps, keep = ("keeps" if each == 1 else "keep" for each in (num_full, num_streaming))
        return (
            f"CachePlan({num_full} of {amount(len(self.groups), 'group')} {keeps} all keys; "
            f"{num_streaming} {keep} the first {self.sink} and the last {self.recent})"
        )

    @property
    def groups(self) -> tuple[Group, ...]:
        """All groups, in order."""
        return tuple(
            Group(layer, index) for layer, row in enumerate(self.full) for index in range(len(row))
        )

    @property
    def streaming(self) -> tuple[Group, ...]:
        """The groups that stream, in order."""
        return tuple(group for group in self.groups if not self.full[group.layer][group.index])

    def write(self, path: str | Path) -> None:
        """Write the plan as JSON, completely or not at all."""
        write_json(Path(path), {"version": VERSION} | encoded(self))

    @classmethod
    def read(cls, path: str | Path) -> "CachePlan":
        """Read a plan from a file.

        Raises:
            InputError: if the file can't be read or is not a plan; the error says why.
        """
        return JsonObject.read(Path(path), "headcount cache", "a plan of a cache").decode(cls)
