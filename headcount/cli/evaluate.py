"""`headcount evaluate`: how good a model is at a task."""

from dataclasses import asdict, dataclass
from pathlib import Path

from headcount import models, results, tasks
from headcount.cli.console import plain_console, to_jsonable
from headcount.cli.task_arguments import TaskArguments, print_warnings
from headcount.core import check_is_folder, write_text


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
        record = self._record(loaded, task, evaluation)
        console = plain_console()
        print_warnings(task.warnings(), console)
        for name, value in record.numbers().items():
            shown = f"{value:,.4f}" if isinstance(value, float) else value
            console.print(f"{name:<18} {shown}")
        if self.out is not None:
            record.write(self.out / "evaluation.json")
            if task.writes:
                lines = "".join(f"{text}\n" for text in evaluation.outcome_N)
                write_text(self.out / "translations.txt", lines)
        return 0

    def _record(
        self, loaded: "models.Loaded", task: "tasks.Task", evaluation: "tasks.Evaluation"
    ) -> "results.EvaluationRecord":
        """The loss in nats per token, the score, and how both were measured."""
        scores, signatures = {task.metric: float(task.score(evaluation))}, {}
        num_truncated = 0
        if isinstance(task, tasks.Translation):
            num_truncated, signatures[task.metric] = task.num_truncated, task.signature
            if task.metric != "chrf":
                scores["chrf"], signatures["chrf"] = _chrf(task, evaluation)
        return results.EvaluationRecord(
            num_examples=task.num_examples,
            loss=evaluation.loss,
            scores=scores,
            score_signatures=signatures,
            num_truncated=num_truncated,
            signature=models.signature(loaded, task.sha256, task=self.task, metric=task.signature),
            arguments=to_jsonable(asdict(self)),
        )


def _chrf(task: "tasks.Translation", evaluation: "tasks.Evaluation") -> tuple[float, str]:
    """The chrF of the translations, and its signature."""
    from sacrebleu.metrics.chrf import CHRF

    chrf = CHRF()
    score = chrf.corpus_score(list(evaluation.outcome_N), [task.references]).score
    return float(score), str(chrf.get_signature())
