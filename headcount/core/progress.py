"""Progress: how far a long run has got, reported to a callback.

Also how long its units will take together, by the first of them. Counts have no upper limit of
their own. What they ask for is measured while it begins, so that a count that is a few zeros too
long ends in seconds. What takes very long, or loses something, is done only if the user has
accepted it. On the command line that is `--yes`, which every command has, and in Python a block:

>>> with accepting():
...     check_accepted("Expected a token, got --no-token", "Leave --no-token out")
"""

import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from html import escape
from time import monotonic, perf_counter
from typing import Any, TypeVar, final

from headcount.core.distributed import is_main_process
from headcount.core.errors import ConsentError, InputError, LongRunWarning
from headcount.core.memory import check_free_memory

SECONDS = 0.2
"""Shortest time between two drawings of a bar."""


@final
class ProgressBars:
    """A progress callback that draws a bar for each stage in a notebook's cell.

    >>> import headcount
    >>> headcount.analyze(loaded, corpus, progress=headcount.ProgressBars())  # doctest: +SKIP

    Raises:
        InputError: If IPython, which notebooks run on, is not installed.
    """

    def __init__(self) -> None:
        try:
            from IPython.display import HTML, display
        except ImportError as error:
            raise InputError(
                "Expected a notebook to draw bars in, but IPython is not installed. Pass a "
                "function of your own that takes a stage, the steps done and all steps."
            ) from error
        self._html: Callable[[str], Any] = HTML
        self._display: Callable[..., Any] = display
        self._drawn: dict[str, Any] = {}
        self._begun: dict[str, float] = {}
        self._last: dict[str, float] = {}
        self._done: dict[str, int] = {}

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Draw how far a stage is, unless it was just drawn; `total` is 0 if it is not known."""
        now = monotonic()
        if done < self._done.get(stage, done + 1):  # the stage begins, or restarts
            self._begun[stage] = now
        self._done[stage] = done
        is_due = now - self._last.get(stage, -SECONDS) >= SECONDS
        if not is_due and not (total and done >= total):
            return
        self._last[stage] = now
        shown = self._html(_bar(stage, done, total, now - self._begun[stage]))
        if stage in self._drawn:
            self._drawn[stage].update(shown)
        else:
            self._drawn[stage] = self._display(shown, display_id=True)


def _bar(stage: str, done: int, total: int, seconds: float) -> str:
    """One line with a bar, as HTML; a bar without an end if there is no total."""
    number = f"{done:,}/{total:,}" if total else f"{done:,}"
    ends = f' value="{min(done, total)}" max="{total}"' if total else ""
    name = escape(stage)
    bar = f'<progress aria-label="{name}"{ends}></progress>'
    return f"<div>{name} {bar} {number}, {seconds:.0f} s</div>"


Progress = Callable[[str, int, int], None]
"""Called with the name of a stage, the steps done, and all steps (0 if not known)."""


Steps = Callable[[int, int], None]
"""Called with the steps done and all steps of one stage."""


def silent_steps(done: int, total: int) -> None:
    """The steps of a stage that nobody watches."""


def silent(stage: str, done: int, total: int) -> None:
    """The progress of a run that nobody watches."""


@final
class Stopwatch:
    """Times steps that follow each other."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        """Seconds of each step, to the millisecond, by its name and `_s`."""
        self._since = perf_counter()

    def lap(self, name: str) -> dict[str, float]:
        """End a step; returns the seconds of all."""
        now = perf_counter()
        self.seconds[f"{name}_s"] = round(now - self._since, 3)
        self._since = now
        return self.seconds


T = TypeVar("T")

DAY = 86_400.0
"""Seconds from which on work is refused unless the user accepts it."""
LONG = 600.0
"""Seconds from which on the user is shown an estimate."""
_LOOK = 2.0
"""Least number of seconds by which the rest is estimated."""


@final
class Pace:
    r"""How fast the units of a run follow each other.

    The first unit, which often loads or compiles something, is not timed. After n more have taken
    t seconds, and at least two, all are estimated to take total * t / n. Under torchrun the main
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
        elif (passed := self._clock() - self._started) >= _LOOK:
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
            check_free_memory(size * total, f"{total:,} {what}")
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
            f"{in_words(seconds)}",
            "Ask for fewer",
        )
    if seconds > LONG:
        warnings.warn(
            f"{total:,} {what} will take about {in_words(seconds)}", LongRunWarning, stacklevel=2
        )


def in_words(seconds: float) -> str:
    """A time in words, rounded.

    >>> in_words(900.0), in_words(7_300.0), in_words(864_000.0)
    ('15 minutes', '2 hours', '10 days')
    """
    unit, size = next(
        (unit, size)
        for unit, size in (("days", DAY), ("hours", 3600.0), ("minutes", 60.0))
        if seconds >= 1.5 * size or unit == "minutes"
    )
    return f"{max(2, round(seconds / size)):,} {unit}"


_ACCEPTS = ContextVar("_ACCEPTS", default=False)


@contextmanager
def accepting(accepts: bool = True) -> Iterator[None]:
    """Go on inside the block where headcount would raise a `ConsentError`.

    Args:
        accepts: Whether to accept; if not, the block changes nothing.
    """
    token = _ACCEPTS.set(accepts or _ACCEPTS.get())
    try:
        yield
    finally:
        _ACCEPTS.reset(token)


def check_accepted(problem: str, advice: str) -> None:
    """Check that the user accepts what takes very long, or loses something.

    Args:
        problem: What was expected, and what would happen; without a full stop.
        advice: What to do instead; without a full stop.

    Raises:
        ConsentError: Unless this runs inside `accepting`.
    """
    if not _ACCEPTS.get():
        raise ConsentError(
            f"{problem}. {advice}, or accept it with --yes (in Python: headcount.accepting())."
        )
