"""Scoring: how good a model is at a task, as a record and as files."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from sacrebleu.metrics.chrf import CHRF

from headcount.core import check_is_folder, write_text
from headcount.models import Loaded, signature
from headcount.results import EvaluationRecord
from headcount.tasks.evaluation import evaluate
from headcount.tasks.task import Evaluation, Task
from headcount.tasks.translation import Translation


@final
@dataclass(frozen=True, eq=False)
class Scored:
    """A model's scores on a task, and its results on every example."""

    task: Task
    """The task."""
    evaluation: Evaluation
    """Loss and outcome of every example."""
    record: EvaluationRecord
    """Loss and scores over all examples."""

    def write(self, folder: Path, arguments: Mapping[str, Any] | None = None) -> None:
        """Write `evaluation.json` and, if the model writes texts, `translations.txt`.

        Args:
            folder: Folder to write into; it is created.
            arguments: Arguments of the command, for the record.

        Raises:
            InputError: If the folder is a file.
        """
        check_is_folder(folder)
        replace(self.record, arguments=arguments or {}).write(folder / "evaluation.json")
        if self.task.writes:
            lines = "".join(f"{text}\n" for text in self.evaluation.outcome_N)
            write_text(folder / "translations.txt", lines)


def score(loaded: Loaded, task: Task, max_tokens: int = 4096) -> Scored:
    """Measure a model's loss and score; translations are scored by chrF too.

    Args:
        loaded: The model that the task was made for.
        task: The task.
        max_tokens: Largest number of padded tokens in a batch.

    Raises:
        ModelError: If a loss is not finite.
    """
    evaluation = evaluate(loaded.model, task, max_tokens, texts=True)
    scores, signatures = {task.metric: float(task.score(evaluation))}, {}
    num_truncated = 0
    if isinstance(task, Translation):
        num_truncated, signatures[task.metric] = task.num_truncated, task.signature
        if task.metric != "chrf":
            scores["chrf"], signatures["chrf"] = _chrf(task, evaluation)
    record = EvaluationRecord(
        num_examples=task.num_examples,
        loss=evaluation.loss,
        scores=scores,
        score_signatures=signatures,
        num_truncated=num_truncated,
        signature=signature(loaded, task.sha256, task=task.name, metric=task.signature),
    )
    return Scored(task, evaluation, record)


def _chrf(task: Translation, evaluation: Evaluation) -> tuple[float, str]:
    """The chrF of the translations, and its signature."""
    chrf = CHRF()
    found = chrf.corpus_score(list(evaluation.outcome_N), [task.references]).score
    return float(found), str(chrf.get_signature())
