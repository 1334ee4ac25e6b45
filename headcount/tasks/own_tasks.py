"""Tasks of plug-ins: tried on a small batch before anything is measured with them, then guarded."""

import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager
from hashlib import sha256
from math import isnan

import numpy as np
import torch
from jaxtyping import Int
from transformers import PreTrainedModel

from headcount.core import (
    REPAIR,
    Origin,
    PluginError,
    PluginWarning,
    amount,
    guarded,
    signed_origins,
)
from headcount.models import Loaded
from headcount.tap import evaluating, input_device
from headcount.tasks.task import Evaluation, Losses, Task, TaskBatch

_TRIED = 2
"""Number of examples to try."""


def tried(task: object, loaded: Loaded, origin: Origin, options: Mapping[str, object]) -> Task:
    """A plug-in's task, signed by it and by options, once it was run on a few examples.

    It is guarded from then on: see `guarded_task`.

    Raises:
        PluginError: If it is no task, lacks words, or its losses or its score are no numbers.
    """
    task = guarded_task(check_works(task, loaded, origin), origin)
    named = "".join(f"|{name}={options[name]!r}" for name in sorted(options))
    signed = f"{task.sha256}|{signed_origins([origin])}{named}"
    task.sha256 = sha256(signed.encode()).hexdigest()
    return task


def check_works(task: object, loaded: Loaded, origin: Origin) -> Task:
    """Run a task on a few examples; returns it.

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
    batch = task.batch(np.arange(min(_TRIED, task.num_examples)))
    if not isinstance(batch, TaskBatch):
        raise _wrong(origin, "a TaskBatch of `batch`", type(batch).__name__)
    with evaluating(loaded.model), torch.inference_mode():
        losses = task.losses(loaded.model, batch.to(input_device(loaded.model)))
    found = _arrays(_checked(losses, task, batch.num_examples, origin))
    if task.writes:
        return task
    # As if all examples had the results of these few.
    whole = (np.resize(each, (task.num_examples, *each.shape[1:])) for each in found)
    _checked_score(task.score(Evaluation(*whole)), origin)
    return task


def _checked(losses: object, task: Task, number: int, origin: Origin) -> Losses:
    """Losses, counts and outcomes of some examples, which have a finite loss each."""
    if not isinstance(losses, Losses):
        raise _wrong(origin, "Losses of `losses`", type(losses).__name__)
    shapes = {"loss_E": (number,), "count_E": (number,)}
    shapes |= {"outcome_E": (number, *task.outcome_shape)}
    if not losses.loss_E.is_floating_point():
        raise _wrong(origin, "loss_E in floating point", str(losses.loss_E.dtype))
    for name, shape in shapes.items():
        if (got := tuple(getattr(losses, name).shape)) != shape:
            raise _wrong(origin, f"{name} of shape {shape} for {number} examples", f"{got}")
    if not bool(losses.loss_E.isfinite().all()):
        raise _wrong(origin, "finite losses", f"{losses.loss_E.tolist()}")
    return losses


def _arrays(losses: Losses) -> list[np.ndarray]:
    found = losses.loss_E.double(), losses.count_E, losses.outcome_E.double()
    return [each.cpu().numpy() for each in found]


def _checked_score(score: object, origin: Origin) -> float:
    if not isinstance(score, float | int):
        raise _wrong(origin, "a number as the score", type(score).__name__)
    return float(score)


def _wrong(origin: Origin, expected: str, got: str) -> PluginError:
    return PluginError(f"Expected {expected} from the plug-in {origin}, got {got}. {REPAIR}")


def guarded_task(task: Task, origin: Origin) -> Task:
    """The task, whose batches, losses and score are guarded and checked wherever it is used.

    Its class is one derived from its own, so that copies and parts of it are guarded, too.
    """
    kind = type(task)
    about = {"its_origin": origin, "__module__": kind.__module__, "__doc__": kind.__doc__}
    task.__class__ = type(kind.__name__, (_Guarded, kind), about)
    return task


class _Guarded(Task):
    """What a plug-in's task does on every example after the first few."""

    its_origin: Origin

    def _guarded(self, doing: str) -> AbstractContextManager[None]:
        return guarded(self.its_origin, f"{doing} of the task {self.name}")

    def batch(self, index_E: Int[np.ndarray, " example"]) -> TaskBatch:
        """A batch of some examples."""
        with self._guarded("make a batch"):
            return super().batch(index_E)

    def losses(self, model: PreTrainedModel, batch: TaskBatch) -> Losses:
        """Losses of a batch: a finite number for each example."""
        with self._guarded("compute losses"):
            found = super().losses(model, batch)
            return _checked(found, self, batch.num_examples, self.its_origin)

    def score(
        self, evaluation: Evaluation, index_S: Int[np.ndarray, " sample"] | None = None
    ) -> float:
        """The score, which is a number; a warning follows if that of all examples is NaN."""
        if index_S is not None:  # thousands of draws, once that of all examples was made
            return super().score(evaluation, index_S)  # type: ignore[safe-super]
        with self._guarded("compute the score"):
            score = _checked_score(super().score(evaluation), self.its_origin)  # type: ignore[safe-super]
        if isnan(score):
            warnings.warn(
                f"{self.metric} of the task {self.name} of the plug-in {self.its_origin} has no "
                f"number (NaN) on {amount(len(evaluation.loss_N), 'example')}",
                PluginWarning,
                stacklevel=2,
            )
        return score
