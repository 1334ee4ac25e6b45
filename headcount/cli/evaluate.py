"""`headcount evaluate`: how good a model is at a task."""

from dataclasses import dataclass
from pathlib import Path

from headcount import results, statistics, tasks
from headcount.cli.arguments import TaskArguments, recorded
from headcount.cli.console import plain_console, print_warnings
from headcount.core import check_is_folder


@dataclass(frozen=True)
class Evaluate(TaskArguments):
    """Measure a model's loss and score on a task; translations are scored by BLEU and chrF."""

    RECORD = results.EvaluationRecord.FILE

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
        print_warnings([*task.warnings(), *statistics.rough_score(task.num_examples)], console)
        for name, value in scored.record.numbers().items():
            shown = f"{value:,.4f}" if isinstance(value, float) else value
            console.print(f"{name:<18} {shown}")
        if self.out is not None:
            scored.write(self.out, recorded(self))
        return 0
