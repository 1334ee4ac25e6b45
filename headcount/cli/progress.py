"""Progress: one bar a stage with rate and time left, on standard error."""

from collections.abc import Iterator
from contextlib import contextmanager

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
from headcount.processes import processes


class _Rate(ProgressColumn):
    """Sentences a second."""

    def render(self, task: Task) -> Text:
        """The rate so far, empty before the first batch."""
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f} sentences/s" if speed else "")


@contextmanager
def shown() -> Iterator[Report]:
    """A callback that shows how far every stage is; silent in all processes but the first."""
    columns = (
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        _Rate(), TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    quiet = not processes().is_main_process
    with Progress(*columns, console=Console(stderr=True), disable=quiet) as bars:
        tasks = {}

        def report(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total or None)
            bars.update(tasks[stage], completed=done, total=total or None)

        yield report
