"""Brief: what Python prints of a large record.

Notebooks: what they display of results.

`headcount.reports` draws it, which stands above the packages of the results. It is looked up by its
name when a notebook asks, so that a result needs nothing that draws.

Progress: how far a long run has got, reported to a callback.

Progress bars: how far a long run is, in a notebook.
"""

from collections.abc import Callable, Sequence
from dataclasses import Field, fields
from html import escape
from importlib import import_module
from reprlib import Repr
from time import monotonic, perf_counter
from typing import Any, final

from headcount.core.errors import InputError
from headcount.core.options import default_of

LONGEST = 240
"""Number of characters of a `repr`: three lines of 80."""


def brief_repr(self: Any) -> str:
    """The class and the fields of a dataclass that differ from their defaults, on three lines.

    It is assigned to `__repr__` in classes whose texts are nobody's key: long values are shortened.
    """
    brief = Repr()
    brief.maxstring, brief.maxother, brief.maxlevel = 40, 60, 2
    brief.maxdict = brief.maxtuple = brief.maxlist = 3
    shown = [
        f"{field.name}={' '.join(brief.repr(value).split())}"
        for field in fields(self)
        if field.repr and not _is_default(field, value := getattr(self, field.name))
    ]
    text = f"{type(self).__name__}({', '.join(shown)})"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 5]} ...)"


def _is_default(field: Field[Any], value: Any) -> bool:
    """Whether a value is the field's default, which `repr` need not say."""
    made = default_of(field)
    return type(value) is type(made) and repr(value) == repr(made)


DRAWS = "headcount.reports"
"""The package that draws results."""


def drawn_html(result: object) -> str:
    """The HTML of a result for a notebook."""
    return import_module(DRAWS).notebook_html(result)


def drawn_card(analysis: object, head: str) -> Any:
    """The card of one head of an analysis, which notebooks display and `save` writes."""
    return import_module(DRAWS).show_card(analysis, head)


def small_table(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """A table of names and values under a title; texts are escaped.

    >>> small_table("A <b>", [("heads", "72")])
    '<table><caption>A &lt;b&gt;</caption><tr><th>heads</th><td>72</td></tr></table>'
    """
    lines = (f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<table><caption>{escape(title)}</caption>{''.join(lines)}</table>"


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
