"""Progress: one bar a stage with rate and time left, on standard error."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic

from rich.console import Console
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
from rich.text import Text

from headcount.analysis import Progress as Report
from headcount.cli.console import plain_console
from headcount.processes import processes

SECONDS = 30.0
"""Between two lines of a stage in a log."""


class _Rate(ProgressColumn):
    """Steps of the stage in a second."""

    def render(self, task: Task) -> Text:
        """The rate so far, empty before the first step."""
        speed = task.finished_speed or task.speed
        return Text(_rate(speed) if speed else "")


@contextmanager
def shown() -> Iterator[Report]:
    """A callback that shows how far every stage is; silent in all processes but the first.

    On a terminal a bar a stage; in a log a line when a stage begins and ends, and now and then.
    """
    columns = (
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        _Rate(), TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    console = plain_console(stderr=True)
    if not console.is_terminal:
        yield _Lines(console).report
        return
    quiet = not processes().is_main_process
    with Progress(*columns, console=console, disable=quiet) as bars:
        tasks, last = {}, {}

        def report(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total or None)
            elif done < last[stage]:  # it comes again, of another method or training
                bars.reset(tasks[stage])
            last[stage] = done
            bars.update(tasks[stage], completed=done, total=total or None)

        yield report


@dataclass
class _Lines:
    """Progress as lines."""

    console: Console
    begun: dict[str, tuple[float, int]] = field(default_factory=dict)
    """When every stage began, and what was done then: more than nothing in a resumed one."""
    told: dict[str, float] = field(default_factory=dict)
    """When every stage was last told."""
    last: dict[str, int] = field(default_factory=dict)
    """What of every stage was done then or later."""

    def report(self, stage: str, done: int, total: int) -> None:
        """A line, if it is time for one."""
        if not processes().is_main_process:
            return
        now = monotonic()
        is_new = done < self.last.get(stage, done + 1)  # or it comes again, of another method
        self.last[stage] = done
        if is_new:
            self.begun[stage] = now, done
        start, first = self.begun[stage]
        if not (is_new or done == total or now - self.told[stage] >= SECONDS):
            return
        self.told[stage] = now
        parts = [f"{stage}  {done:,}/{total:,}" if total else f"{stage}  {done:,}"]
        if done > first and now > start:
            rate = (done - first) / (now - start)
            parts += [_rate(rate), f"{timedelta(seconds=round((total - done) / rate))} left"]
        self.console.print("  ".join(parts[:2] if done >= total else parts))


def _rate(steps_per_second: float) -> str:
    return f"{steps_per_second:,.{0 if steps_per_second >= 10 else 2}f}/s"
