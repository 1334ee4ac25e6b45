"""Scoring: a model's losses on every example of a task, its scores, and a record of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from sacrebleu.metrics.chrf import CHRF
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import (
    MAX_TOKENS,
    OURS,
    InputError,
    ModelError,
    amount,
    check_is_folder,
    spread,
    write_text,
)
from headcount.models import CUT, Loaded, as_loaded, batch_tokens, check_memory, signature
from headcount.results import EvaluationRecord
from headcount.statistics import rough_score
from headcount.tap import AnyModel, evaluating, input_device, model_of
from headcount.tasks.batch import Evaluation, TaskBatch
from headcount.tasks.metrics import WritingTask
from headcount.tasks.task import Task
from headcount.tasks.translation import Translation


def evaluate(
    model: AnyModel, task: Task, max_tokens: int = MAX_TOKENS, texts: bool = False
) -> Evaluation:
    """Run the model on every example; results are in the order of the data.

    Args:
        model: the model that the task was made for, gated or not.
        task: the data and the loss.
        max_tokens: largest number of padded tokens in a batch.
        texts: whether the model writes too, which the score of a translation task needs.

    Raises:
        ModelError: if a loss is not finite; names the example.
    """
    model = model_of(model)
    loss_N, count_N = np.full(task.num_examples, np.nan), np.zeros(task.num_examples, np.int64)
    outcome_N = np.full((task.num_examples, *task.outcome_shape), np.nan)

    def of_batch(batch: TaskBatch) -> tuple[np.ndarray, ...]:
        losses = task.losses(model, batch.to(input_device(model)))
        index_E = batch.index_E.cpu().numpy()
        _check_finite(losses.loss_E, index_E, task)
        numbers = losses.loss_E.double(), losses.count_E, losses.outcome_E.double()
        return index_E, *(each.cpu().numpy() for each in numbers)

    with evaluating(model), torch.inference_mode():
        own = task.evaluated(model, batch_tokens(model, max_tokens), texts)
        if own is not None:
            _check_finite(torch.from_numpy(own.loss_N), np.arange(len(own.loss_N)), task)
            return own
        batches = task.batches(batch_tokens(model, max_tokens))
        for index_E, *numbers in spread(of_batch, batches, "batches"):
            loss_N[index_E], count_N[index_E], outcome_N[index_E] = numbers
    assert not np.isnan(loss_N).any(), "a task's batches leave no example out"
    evaluation = Evaluation(loss_N, count_N, outcome_N)
    return task.with_texts(evaluation, model, max_tokens) if texts else evaluation


def check_examples_fit(loaded: Loaded, task: Task, max_tokens: int) -> None:
    """Check that attention over the longest example fits into memory, before the model reads one.

    Raises:
        InputError: if it does not.
    """
    try:
        longest = int(task.length_N.max())
    except InputError:  # a task that makes its batches itself
        return
    has_pieces = task.name in ("causal-lm", "masked-lm")
    advice = "Cut texts into shorter pieces, for example with --max-length 2048"
    advice = advice if has_pieces else CUT
    check_memory(loaded, longest, task.num_examples, max_tokens, advice)


def _check_finite(loss_E: Tensor, index_E: np.ndarray, task: Task) -> None:
    broken_E = ~loss_E.isfinite().cpu().numpy()
    if broken_E.any():
        first, origin = index_E[broken_E].min(), task.its_origin
        whose, too = (
            ("", "") if origin == OURS else (f" by the plug-in {origin}", " or the plug-in")
        )
        raise ModelError(
            f"Expected finite losses, got NaN or infinity in {broken_E.sum()} of the "
            f"{amount(len(broken_E), 'loss')} of a batch, such as the {task.name} loss of example "
            f"{first} (from 0){whose}. "
            f"Load the model in float32, or repair the checkpoint{too}."
        )


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
        """Write `evaluation.json` and, if the model writes texts, these, one a line.

        Args:
            folder: Folder to write into; it is created.
            arguments: Arguments of the command, for the record.

        Raises:
            InputError: If the folder is a file.
        """
        check_is_folder(folder)
        texts = [self.task.texts_file] if isinstance(self.task, WritingTask) else []
        for name in texts:
            lines = "".join(f"{text}\n" for text in self.evaluation.outcome_N)
            write_text(folder / name, lines)
        replace(self.record, arguments=arguments or {}).write(folder, texts)


def score(loaded: Loaded | PreTrainedModel, task: Task, max_tokens: int = MAX_TOKENS) -> Scored:
    """Measure a model's loss and score; translations are scored by chrF too.

    Args:
        loaded: The model that the task was made for.
        task: The task.
        max_tokens: Largest number of padded tokens in a batch.

    Raises:
        InputError: If the longest example does not fit into memory.
        ModelError: If a loss is not finite.
    """
    loaded = as_loaded(loaded)
    check_examples_fit(loaded, task, max_tokens)
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
        warnings=(*task.warnings(), *rough_score(task.num_examples)),
        signature=signature(loaded, task.sha256, task=task.name, metric=task.signature),
    )
    return Scored(task, evaluation, record)


def _chrf(task: Translation, evaluation: Evaluation) -> tuple[float, str]:
    """The chrF of the translations, and its signature."""
    chrf = CHRF()
    found = chrf.corpus_score(list(evaluation.outcome_N), task.reference_streams).score
    return float(found), str(chrf.get_signature())
