"""Tasks of plug-ins are tried on a small batch before anything is measured with them."""

from collections.abc import Mapping
from hashlib import sha256

import numpy as np
import torch

from headcount.core import Origin, amount, signed_origins
from headcount.models import Loaded
from headcount.tap import evaluating, input_device
from headcount.tasks.batch import Evaluation
from headcount.tasks.task import Task, wrong

_TRIED = 2
"""Number of examples to try."""


def tried(task: object, loaded: Loaded, origin: Origin, options: Mapping[str, object]) -> Task:
    """A plug-in's task, signed by it and by options, once it was run on a few examples.

    Raises:
        PluginError: If it is no task, lacks words, or its losses or its score are no numbers.
    """
    task = check_works(task, loaded, origin)
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
        raise wrong(origin, "a Task", type(task).__name__)
    needed = ("name", "metric", "higher_is_better", "num_examples", "sha256")
    if lacking := [each for each in needed if getattr(task, each, None) in (None, "")]:
        raise wrong(origin, f"a task with {' and '.join(lacking)}", "none")
    if task.length_N.shape != (task.num_examples,):
        expected = f"length_N of {amount(task.num_examples, 'example')}"
        raise wrong(origin, expected, f"shape {task.length_N.shape}")
    batch = task.batch(np.arange(min(_TRIED, task.num_examples)))
    with evaluating(loaded.model), torch.inference_mode():
        losses = task.losses(loaded.model, batch.to(input_device(loaded.model)))
    arrays = losses.loss_E.double(), losses.count_E, losses.outcome_E.double()
    found = [each.cpu().numpy() for each in arrays]
    if not np.isfinite(found[0]).all():
        raise wrong(origin, "finite losses", f"{found[0].tolist()}")
    if not task.writes:  # as if all examples had the results of these few
        whole = (np.resize(each, (task.num_examples, *each.shape[1:])) for each in found)
        task.score(Evaluation(*whole))
    return task
