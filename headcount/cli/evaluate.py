"""`headcount evaluate`: how good a model is at a task."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headcount import models, tasks
from headcount.cli.console import plain_console, to_jsonable
from headcount.cli.task_arguments import TaskArguments, print_warnings
from headcount.core import check_is_folder, nulls_for_nan, write_json, write_text


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
        task = self.built(loaded, self.data)
        evaluation = tasks.evaluate(loaded.model, task, self.max_tokens, texts=True)
        numbers = self._numbers(loaded, task, evaluation)
        console = plain_console()
        print_warnings(task.warnings(), console)
        for name, value in numbers.items():
            shown = f"{value:,.4f}" if isinstance(value, float) else value
            console.print(f"{name:<18} {shown}")
        if self.out is not None:
            self._write(self.out, numbers, task, evaluation)
        return 0

    def _numbers(
        self, loaded: "models.Loaded", task: "tasks.Task", evaluation: "tasks.Evaluation"
    ) -> dict[str, Any]:
        """The loss in nats per token, the score, and how both were measured."""
        numbers: dict[str, Any] = {"examples": task.num_examples, "loss": evaluation.loss}
        numbers[task.metric] = task.score(evaluation)
        if isinstance(task, tasks.Translation):
            numbers |= _translation_numbers(task, evaluation)
        signed = models.signature(loaded, task.sha256, task=self.task, metric=task.signature)
        return numbers | {"signature": signed}

    def _write(
        self, out: Path, numbers: dict[str, Any], task: "tasks.Task", evaluation: "tasks.Evaluation"
    ) -> None:
        record = nulls_for_nan(numbers) | {"arguments": to_jsonable(asdict(self))}
        write_json(out / "evaluation.json", record)
        if task.writes:
            lines = "".join(f"{text}\n" for text in evaluation.outcome_N)
            write_text(out / "translations.txt", lines)


def _translation_numbers(
    task: "tasks.Translation", evaluation: "tasks.Evaluation"
) -> dict[str, Any]:
    """The score's signature, and chrF beside BLEU."""
    found: dict[str, Any] = {f"{task.metric} signature": task.signature}
    if task.metric != "chrf":
        from sacrebleu.metrics.chrf import CHRF

        chrf = CHRF()
        found["chrf"] = float(
            chrf.corpus_score(list(evaluation.outcome_N), [task.references]).score
        )
        found["chrf signature"] = str(chrf.get_signature())
    if task.num_truncated:
        found["truncated"] = task.num_truncated
    return found
