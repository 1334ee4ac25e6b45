"""`headcount evaluate`: how good a model is at a task."""

from dataclasses import dataclass
from pathlib import Path

from headcount import models, results, statistics, tasks
from headcount.cli.arguments import TaskArguments, recorded
from headcount.cli.console import Report, plain_console, print_warnings
from headcount.cli.frame import Measuring
from headcount.core import check_is_folder


@dataclass(frozen=True)
class Evaluate(TaskArguments, Measuring["models.Loaded", "tasks.Scored"]):
    """Measure a model's loss and score on a task."""

    RECORD = results.EvaluationRecord.FILE

    out: Path | None = None
    """Folder for evaluation.json and, for a translation, translations.txt."""

    def check(self) -> None:
        """Check everything that needs no model."""
        super().check()
        if self.out is not None:
            check_is_folder(self.out)

    def measure(self, read: "models.Loaded", progress: Report) -> "tasks.Scored":
        """Evaluate the model."""
        task = self.built(read, self.data)
        warnings = [*task.warnings(), *statistics.rough_score(task.num_examples)]
        print_warnings(warnings, plain_console())
        return tasks.score(read, task, self.max_tokens)

    def store(self, found: "tasks.Scored") -> None:
        """Write the numbers if `out` is given."""
        if self.out is not None:
            found.write(self.out, recorded(self))

    def show(self, read: "models.Loaded", found: "tasks.Scored") -> None:
        """Print the numbers."""
        console = plain_console()
        for name, value in found.record.numbers().items():
            shown = f"{value:,.4f}" if isinstance(value, float) else value
            console.print(f"{name:<18} {shown}")
