"""Evaluating: a model's losses and outcomes on every example of a task."""

import numpy as np
import torch
from transformers import PreTrainedModel

from headcount.core import ModelError
from headcount.tap import evaluating
from headcount.tasks.task import Evaluation, Losses, Task


def evaluate(
    model: PreTrainedModel, task: Task, max_tokens: int = 4096, texts: bool = False
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
    loss_N, count_N = np.full(task.num_examples, np.nan), np.zeros(task.num_examples, np.int64)
    outcome_N = np.full(task.num_examples, np.nan)
    with evaluating(model), torch.inference_mode():
        for batch in task.batches(max_tokens):
            losses = task.losses(model, batch.to(model.device))
            index_E = batch.index_E.cpu().numpy()
            _check_finite(losses, index_E, task)
            loss_N[index_E] = losses.loss_E.double().cpu().numpy()
            count_N[index_E] = losses.count_E.cpu().numpy()
            outcome_N[index_E] = losses.outcome_E.double().cpu().numpy()
    assert not np.isnan(loss_N).any(), "a task's batches leave no example out"
    evaluation = Evaluation(loss_N, count_N, outcome_N)
    return task.with_texts(evaluation, model, max_tokens) if texts else evaluation


def _check_finite(losses: Losses, index_E: np.ndarray, task: Task) -> None:
    broken_E = ~losses.loss_E.isfinite().cpu().numpy()
    if broken_E.any():
        first = index_E[broken_E].min()
        raise ModelError(
            f"Expected finite losses, got NaN or infinity in {broken_E.sum()} of the "
            f"{len(broken_E)} losses of a batch, such as the {task.name} loss of example {first} "
            "(from 0). "
            "Load the model in float32, or repair the checkpoint."
        )
