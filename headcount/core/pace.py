"""Pace: how long the units of a run will take together, by the first of them, and what they hold.

Counts have no upper limit of their own. What they ask for is measured while it begins, so that a
count that is a few zeros too long ends in seconds.
"""

import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import TypeVar, final

from headcount.core.consent import check_accepted
from headcount.core.distributed import is_main_process
from headcount.core.errors import LongRunWarning
from headcount.core.memory import check_memory

T = TypeVar("T")

DAY = 86_400.0
"""Seconds from which on work is refused unless the user accepts it."""
LONG = 600.0
"""Seconds from which on the user is shown an estimate."""
LOOK = 2.0
"""Least number of seconds by which the rest is estimated."""


@final
class Pace:
    r"""How fast the units of a run follow each other.

    The first unit, which often loads or compiles something, is not timed. After n more have taken
    t seconds, and at least `LOOK`, all are estimated to take total * t / n. Under torchrun the main
    process decides, and the others end with it.

    Args:
        total: The number of units.
        what: What they are, as a plural noun.
        clock: Returns seconds; `time.monotonic` by default.
    """

    def __init__(self, total: int, what: str, clock: Callable[[], float] | None = None) -> None:
        self._total, self._what, self._clock = total, what, clock or monotonic
        self._done, self._started = 0, 0.0
        self.is_judged = not is_main_process()
        """Whether it is decided that the rest may run."""

    def step(self) -> None:
        """Count a unit that is done.

        Raises:
            ConsentError: If all would take more than `DAY`, unless that is accepted.
        """
        if self.is_judged:
            return
        if self._done == 0:
            self._started = self._clock()
        elif (passed := self._clock() - self._started) >= LOOK:
            self.is_judged = True
            _judge(passed / self._done * self._total, self._total, self._what)
        self._done += 1


def paced(
    units: Iterable[T],
    total: int,
    what: str,
    *,
    held: bool = False,
    clock: Callable[[], float] | None = None,
) -> Iterator[T]:
    r"""The units, unless all of them would take more than a day, or more memory than there is.

    Args:
        units: The units; the time between two of them is what one takes.
        total: Their number.
        what: What they are, as a plural noun.
        held: Whether all of them are in memory together.
        clock: Returns seconds; `time.monotonic` by default.

    Raises:
        ConsentError: If they would take more than `DAY` (see `Pace`), unless that is accepted.
        InputError: If they are held and do not fit into memory.
    """
    pace, is_first = Pace(total, what, clock), held
    for unit in (rest := iter(units)):
        if is_first:
            size = len(pickle.dumps(unit, pickle.HIGHEST_PROTOCOL))
            check_memory(size * total, f"{total:,} {what}")
            is_first = False
        yield unit
        pace.step()
        if pace.is_judged:
            yield from rest


def _judge(seconds: float, total: int, what: str) -> None:
    """Report an estimate of more than `LONG`, and refuse one of more than `DAY`."""
    if seconds > DAY:
        check_accepted(
            f"Expected work of at most a day, but {total:,} {what} would take about "
            f"{_in_words(seconds)}",
            "Ask for fewer",
        )
    if seconds > LONG:
        warnings.warn(
            f"{total:,} {what} will take about {_in_words(seconds)}", LongRunWarning, stacklevel=2
        )


def _in_words(seconds: float) -> str:
    """A time in words, rounded.

    >>> _in_words(900.0), _in_words(7_300.0), _in_words(864_000.0)
    ('15 minutes', '2 hours', '10 days')
    """
    unit, size = next(
        (unit, size)
        for unit, size in (("days", DAY), ("hours", 3600.0), ("minutes", 60.0))
        if seconds >= 1.5 * size or unit == "minutes"
    )
    return f"{max(2, round(seconds / size)):,} {unit}"
