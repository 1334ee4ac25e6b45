"""Progress: how far a long run has got, reported to a callback.

Progress bars: how far a long run is, in a notebook.
"""

from collections.abc import Callable
from html import escape
from time import monotonic, perf_counter
from typing import Any, final

from headcount.core.errors import InputError

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
