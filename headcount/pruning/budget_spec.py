"""Budget as a user gives it: how many heads to keep, or how small, fast and good the model must be.

Needs no torch: arguments are checked at once.
"""

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite
from typing import Annotated, SupportsIndex, final

from headcount.core import Constraint, InputError, check_options
from headcount.numbers import part, percent
from headcount.speed import Options

Keep = Mapping[str, int] | int
"""Number of heads to keep: in all, or at each site named (other sites keep all heads)."""

GivenKeep = Mapping[str, SupportsIndex] | SupportsIndex
"""`Keep` as a caller may give it: NumPy's whole numbers are accepted too."""

OPTIONS = {
    "keep": "--keep",
    "share": "--share",
    "cache": "--keep-cache",
    "latency": "--latency",
    "speedup": "--speedup",
    "size": "--size",
    "max_drop": "--max-drop",
}
"""Every kind of budget, with its option of the command line."""

COUNTS = ("keep", "share", "cache")
"""Kinds of budget that name a number of heads."""

_SHARE = Constraint("a share of the cache above 0 and up to 1", lambda value: 0 < value <= 1)
_LATENCY = Constraint("a finite latency above 0 ms", lambda value: 0 < value < inf)
_SPEEDUP = Constraint("a finite speedup above 1", lambda value: 1 < value < inf)

TIMING = Options(batch=(8,), length=(), modes=("forward",), rounds=6)
"""The case in which a pruned model is timed: one forward pass, as long as the data are."""


@final
@dataclass(frozen=True)
class BudgetSpec:
    """The budget of `prune`: one number of heads at most, and any limits beside it.

    A latency, a speedup and a size keep as many heads as possible, and no more than the number of
    heads that is given beside them. A largest drop alone keeps as few heads as possible; beside
    another budget it does not change the choice, but the pruned model is checked against it.

    >>> BudgetSpec(speedup=1.2, max_drop="1%").limits
    {'speedup': 1.2, 'max_drop': '1%'}

    Raises:
        InputError: For no budget, two numbers of heads, or a number that no model can meet.
    """

    keep: GivenKeep | None = None
    """Number of heads to keep."""
    share: float | None = None
    """Share of the prunable heads to keep."""
    cache: Annotated[float | None, _SHARE] = None
    """Largest share of the bytes of the key/value cache; entire groups are pruned."""
    max_drop: float | str | None = None
    """Largest drop of the score: in the score's unit, or, as `"1%"`, of the dense model's score.
    It may not be exceeded by the upper end of the drop's 95 % interval."""
    latency: Annotated[float | None, _LATENCY] = None
    """Largest latency of the compact model, in milliseconds."""
    speedup: Annotated[float | None, _SPEEDUP] = None
    """Smallest speedup of one forward pass beside the dense model."""
    size: float | None = None
    """Largest share of the bytes of the dense model's weights."""

    def __post_init__(self) -> None:
        given = self.limits
        counts = [OPTIONS[name] for name in COUNTS if name in given]
        if not given or len(counts) > 1:
            *names, last = OPTIONS.values()
            raise InputError(
                f"Expected a budget out of {', '.join(names)} and {last}, and at most one of "
                f"{', '.join(OPTIONS[name] for name in COUNTS)}, got "
                f"{' and '.join(counts) or 'none'}."
            )
        if self.keep is not None:
            object.__setattr__(self, "keep", dense(self.keep))
        self._check_limits()
        if isinstance(self.keep, Mapping) and self.costs:
            raise InputError(
                f"Expected one number of heads for all sites beside {OPTIONS[self.costs[0]]}, got "
                f"one for each of {', '.join(self.keep)}. Leave one of the two budgets out."
            )

    def _check_limits(self) -> None:
        if self.share is not None:
            check_share(self.share)
        check_options(self)
        if self.max_drop is not None and not isfinite(self.largest_drop(1.0)):
            raise InputError(f"Expected a finite largest drop, got {self.max_drop}.")
        if self.size is not None and not 0 < self.size < 1:
            raise InputError(
                f"Expected a size between 0 and 100 % of the dense model's, got "
                f"{percent(self.size)}."
            )

    @property
    def limits(self) -> dict[str, object]:
        """What was given, by kind of budget."""
        found = {name: getattr(self, name) for name in OPTIONS}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def costs(self) -> list[str]:
        """The limits that were given and are met with fewer heads, by kind."""
        return [name for name in ("latency", "speedup", "size") if name in self.limits]

    def largest_drop(self, score: float) -> float:
        """The largest drop in the score's own unit.

        >>> BudgetSpec(max_drop="1%").largest_drop(85.0)
        0.85

        Args:
            score: The dense model's score.

        Raises:
            InputError: For text that is no number.
        """
        assert self.max_drop is not None
        if isinstance(self.max_drop, str):
            value = part(self.max_drop)
            return value * abs(score) if self.max_drop.rstrip().endswith("%") else value
        return self.max_drop


def dense(keep: GivenKeep) -> Keep:
    """The same number of heads in Python's own integers.

    Raises:
        InputError: For anything except whole numbers.
    """
    try:
        if isinstance(keep, Mapping):
            return {site: operator.index(number) for site, number in keep.items()}
        return operator.index(keep)
    except TypeError:
        raise InputError(
            f"Expected a whole number of heads to keep, or one for every site, got {keep!r}."
        ) from None


def check_share(part: int | float) -> None:
    """Check that a share of heads lies between 0 and 1.

    Raises:
        InputError: If it does not.
    """
    if not 0 <= part <= 1:
        raise InputError(
            f"Expected a share of heads to keep between 0 and 1, got {part}. To keep a number of "
            "heads, use keep."
        )
