"""`headcount evaluate`: how good a model is at a task."""

from dataclasses import asdict, dataclass
from pathlib import Path

from headcount import tasks
from headcount.cli.console import plain_console, to_jsonable
from headcount.cli.task_arguments import TaskArguments, print_warnings
from headcount.core import check_is_folder


@dataclass(frozen=True)
class Evaluate(TaskArguments):
    """Measure a model's loss and score on a task; translations are scored by BLEU and chrF."""

    out: Path | None = None
    """Folder for evaluation.json and, for a translation, translations.txt."""

    def run(self) -> int:
        """Evaluate the model, print the numbers, and write them if `out` is given."""
        self.check()
        if self.out is not None:
            check_is_folder(self.out)
        loaded = self.loaded()
        task, console = self.built(loaded, self.data), plain_console()
        scored = tasks.score(loaded, task, self.max_tokens)
        print_warnings(task.warnings(), console)
        for name, value in scored.record.numbers().items():
            shown = f"{value:,.4f}" if isinstance(value, float) else value
            console.print(f"{name:<18} {shown}")
        if self.out is not None:
            scored.write(self.out, to_jsonable(asdict(self)))
        return 0
