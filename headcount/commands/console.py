"""What commands print: plain text, never markup; on standard error, the progress of stages.

What is to do next is a sentence and commands to paste, by the numbers just measured.
"""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import timedelta
from pathlib import Path
from shlex import quote
from time import monotonic
from typing import Any, final

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.table import Table as RichTable
from rich.text import Text

from headcount import models
from headcount.core import (
    Chart,
    Code,
    Document,
    Facts,
    Listing,
    LongRunWarning,
    Table,
    Warned,
    is_file,
    is_main_process,
    listed,
    shortened,
    silent,
    visible,
)
from headcount.core import Progress as Report

LONGEST_SIGNATURE = 80
"""Largest number of characters of a signature that is printed."""
_QUIET = ContextVar("_QUIET", default=False)


@contextmanager
def quietly(quiet: bool = True) -> Iterator[None]:
    """Print warnings and errors only, and those on standard error; do nothing if not `quiet`."""
    token = _QUIET.set(quiet)
    try:
        yield
    finally:
        _QUIET.reset(token)


def is_quiet() -> bool:
    """Whether only warnings and errors are printed."""
    return _QUIET.get()


def plain_console(soft_wrap: bool = True, stderr: bool = False) -> Console:
    """A console that never reads a path, name or message as markup and never colours numbers.

    Args:
        soft_wrap: Whether long lines stay unbroken, as paths need; tables need False.
        stderr: Whether to print to standard error.
    """
    quiet = is_quiet() and not stderr
    return _Plain(stderr=stderr, highlight=False, soft_wrap=soft_wrap, markup=False, quiet=quiet)


@final
class _Plain(Console):
    """A console on which texts of files can't move the cursor, recolour or rename the terminal."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The segments of something to print, with control characters made visible."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(visible(text), style)


def plain_warnings() -> None:
    """Print Python's warnings in one line each, on a plain console on standard error."""

    def show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        if issubclass(category, LongRunWarning) and is_quiet():
            return
        style = "yellow"
        plain_console(stderr=True).print(f"warning: {message}", style=style)

    warnings.showwarning = show


def print_document(shown: Document, console: Console) -> None:
    """Print a document without its charts: warnings are coloured, the signature is dim."""
    for block in shown.blocks:
        if isinstance(block, Table):
            if block.is_detail:
                console.print(block.label, soft_wrap=True)
            printed = RichTable(box=None, pad_edge=False)
            for header, is_number in zip(block.headers, block.is_number, strict=True):
                printed.add_column(header, justify="right" if is_number else "left")
            for row in block.rows:
                printed.add_row(*row)
            console.print(printed)
        elif isinstance(block, Warned):
            print_warnings([block.text], console)
        elif isinstance(block, Code):
            print_signature(block.text, console)
        elif isinstance(block, Facts):
            for word, text in block.rows:
                console.print(f"{word}: {text}", soft_wrap=True)
        elif isinstance(block, Listing):
            console.print(f"{block.label}:\n{block.text}", soft_wrap=True)
        elif not isinstance(block, Chart):
            console.print(block.text, soft_wrap=True)


def print_signature(signature: str, console: Console) -> None:
    """Print the beginning and the end of a signature; the record holds the whole."""
    console.print(shortened(signature, LONGEST_SIGNATURE), style="dim", soft_wrap=True)


def show_comparison(found: Document, path: Path) -> None:
    """Write a paper's tables with our numbers beside them, and print them and their path."""
    found.write(path)
    console = plain_console(soft_wrap=False)
    console.print(found.title)
    print_document(found, console)
    console.print(f"Comparison with the paper: {path}", soft_wrap=True)


def print_lines(lines: Iterable[str]) -> None:
    """Print sentences and commands, one a line and never wrapped, so that they can be pasted.

    Commands name the files of plug-ins that this one has, since they may need what these add.
    """
    console = plain_console(soft_wrap=True)
    files = "".join(f" --plugin {quote(each)}" for each in listed() if is_file(each))
    for line in lines:
        console.print(f"{line}{files}" if line.startswith("  headcount ") else line)


def print_warnings(sentences: Iterable[str], console: Console) -> None:
    """Print each warning on its own line; on standard error if the console is quiet."""
    console = plain_console(stderr=True) if console.quiet else console
    for sentence in sentences:
        console.print(f"warning: {sentence}", style="yellow")


SECONDS = 30.0
"""Seconds after which a stage gets another line in a log."""
PART, LEAST = 0.1, 2.0
"""Part of a stage after which it gets a line earlier, and seconds that must be between the two."""


class _Rate(ProgressColumn):
    """Steps per second of the stage."""

    def render(self, task: Task) -> Text:
        """The rate so far; empty before the first step."""
        speed = task.finished_speed or task.speed
        return Text(_rate(speed) if speed else "")


@contextmanager
def shown() -> Iterator[Report]:
    """A callback that shows the progress of every stage; only the first process prints.

    A terminal shows one bar per stage. A log gets a line when a stage begins or ends, and for each
    tenth of it, or every 30 seconds, in between.
    """
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    console = plain_console(stderr=True)
    if is_quiet():
        yield silent
        return
    if not console.is_terminal:
        yield _Lines(console).report
        return
    quiet = not is_main_process()
    with Progress(*columns, console=console, disable=quiet) as bars:
        tasks, last = {}, {}

        def report(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total or None)
            elif done < last[stage]:  # the stage restarts, for another method or training
                bars.reset(tasks[stage])
            last[stage] = done
            bars.update(tasks[stage], completed=done, total=total or None)

        yield report


@dataclass
class _Lines:
    """Progress as log lines."""

    console: Console
    begun: dict[str, tuple[float, int]] = field(default_factory=dict)
    """Start time of every stage, and steps done by then (more than 0 in a resumed stage)."""
    reported: dict[str, tuple[float, int]] = field(default_factory=dict)
    """Time of the last line of every stage, and the steps that it reported."""
    short: frozenset[str] = frozenset()
    """Stages that come again within seconds, such as a score after each step of a ranking: their
    begin and end are no news."""
    last: dict[str, int] = field(default_factory=dict)
    """Steps of every stage that the last call reported."""

    def report(self, stage: str, done: int, total: int) -> None:
        """Print a line if one is due."""
        if not is_main_process():
            return
        now = monotonic()
        is_new = done < self.last.get(stage, done + 1)  # also when a stage restarts
        since, before = self.reported.get(stage, (-SECONDS, 0))
        is_due = now - since >= SECONDS
        self.last[stage] = done
        if is_new:
            was_short = stage in self.begun and now - self.begun[stage][0] < SECONDS
            self.short = self.short - {stage} | ({stage} if was_short and not is_due else set())
            self.begun[stage] = now, done
        start, first = self.begun[stage]
        is_tenth = 0 < PART * total <= done - before and now - since >= LEAST
        is_news = is_new or is_tenth or done == total
        if not (is_due or (is_news and stage not in self.short)):
            return
        self.reported[stage] = now, done
        parts = [f"{stage}  {done:,}/{total:,}" if total else f"{stage}  {done:,}"]
        if done > first and now > start:
            rate = (done - first) / (now - start)
            parts += [_rate(rate), f"{timedelta(seconds=round((total - done) / rate))} left"]
        self.console.print("  ".join(parts[:2] if done >= total else parts))


def _rate(steps_per_second: float) -> str:
    return f"{steps_per_second:,.{0 if steps_per_second >= 10 else 2}f}/s"


ONCE = "once"
"""What marks an option that changes no number: next steps and records leave it out."""

UPDATES = 2000
"""Number of updates of the further training that is proposed."""
PLACEHOLDER_CORPUS = "CORPUS"
"""Placeholder in a command for texts or images that the user did not name."""

PLACEHOLDER_TEST = "TEST_FILE"
"""Placeholder in a command for test data that the user did not name."""


def given(arguments: Any, kind: type[Any]) -> dict[str, Any]:
    """The arguments that another command shares and whose values are not its defaults."""
    found = dict[str, Any]()
    for each in fields(kind):
        value = getattr(arguments, each.name, each.default)
        if is_dataclass(value):
            found |= given(value, type(value))
        elif each.name != "model" and value != each.default and ONCE not in each.metadata:
            found[each.name] = value
    return found


def between(low: int, high: int, size: int = 1) -> list[int]:
    """Up to three numbers between two, evenly spaced, the largest first.

    Args:
        low: the numbers are above this.
        high: the numbers are below this.
        size: the numbers are multiples of this, the number of heads pruned at once.

    >>> between(0, 144), between(1, 3), between(1, 2)
    ([108, 72, 36], [2], [])
    >>> between(0, 270, 3)
    [201, 135, 66]
    """
    found = (low + (high - low) * quarter // 4 // size * size for quarter in (3, 2, 1))
    return [number for number in dict.fromkeys(found) if low < number < high]


def group_size(loaded: "models.Loaded") -> int:
    """The largest number of heads that share keys and values, which are pruned at once."""
    return max(each.num_heads // each.num_key_value_heads for each in loaded.anatomy.layers)
