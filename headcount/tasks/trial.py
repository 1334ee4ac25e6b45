"""Trial: a task of a plug-in, tried on one small batch before anything is measured with it."""

from hashlib import sha256

import numpy as np
import torch

from headcount.core import REPAIR, Origin, PluginError, amount, signed_origins
from headcount.models import Loaded
from headcount.tap import evaluating, input_device
from headcount.tasks.task import Evaluation, Losses, Task, TaskBatch

TRIED = 2
"""Number of examples to try."""


def tried(task: object, loaded: Loaded, origin: Origin) -> Task:
    """A plug-in's task, signed by the plug-in, once it was run on a few examples.

    Raises:
        PluginError: If it is no task, lacks words, or its losses or its score are no numbers.
    """
    if not isinstance(task, Task):
        raise _wrong(origin, "a Task", type(task).__name__)
    needed = ("name", "metric", "higher_is_better", "num_examples", "sha256")
    if lacking := [each for each in needed if getattr(task, each, None) is None]:
        raise _wrong(origin, f"a task with {' and '.join(lacking)}", "none")
    if task.length_N.shape != (task.num_examples,):
        expected = f"length_N of {amount(task.num_examples, 'example')}"
        raise _wrong(origin, expected, f"shape {task.length_N.shape}")
    batch = task.batch(np.arange(min(TRIED, task.num_examples)))
    if not isinstance(batch, TaskBatch):
        raise _wrong(origin, "a TaskBatch of `batch`", type(batch).__name__)
    with evaluating(loaded.model), torch.inference_mode():
        losses = task.losses(loaded.model, batch.to(input_device(loaded.model)))
    found = _checked(losses, task, batch.num_examples, origin)
    # As if all examples had the results of these few.
    whole = (np.resize(each, (task.num_examples, *each.shape[1:])) for each in found)
    if not isinstance(score := task.score(Evaluation(*whole)), float | int):
        raise _wrong(origin, "a number as the score", type(score).__name__)
    signed = f"{task.sha256}|{signed_origins([origin])}"
    task.sha256 = sha256(signed.encode()).hexdigest()
    return task


def _checked(losses: object, task: Task, number: int, origin: Origin) -> list[np.ndarray]:
    """Losses, counts and outcomes of some examples, which have a finite loss each."""
    if not isinstance(losses, Losses):
        raise _wrong(origin, "Losses of `losses`", type(losses).__name__)
    shapes = {"loss_E": (number,), "count_E": (number,)}
    shapes |= {"outcome_E": (number, *task.outcome_shape)}
    for name, shape in shapes.items():
        if (got := tuple(getattr(losses, name).shape)) != shape:
            raise _wrong(origin, f"{name} of shape {shape} for {number} examples", f"{got}")
    if not bool(losses.loss_E.isfinite().all()):
        raise _wrong(origin, "finite losses", f"{losses.loss_E.tolist()}")
    found = losses.loss_E.double(), losses.count_E, losses.outcome_E.double()
    return [each.cpu().numpy() for each in found]


def _wrong(origin: Origin, expected: str, got: str) -> PluginError:
    return PluginError(f"Expected {expected} from the plug-in {origin}, got {got}. {REPAIR}")
