"""Latency: how long a model takes for one example of median length."""

import numpy as np

from headcount.models.load import Loaded
from headcount.speed.clock import latency
from headcount.tasks import Task


def milliseconds(loaded: Loaded, task: Task, rounds: int = 9) -> float:
    """Median time over rounds of one forward pass with the example of median length alone.

    In translation, the reference is the decoder's input, without a search.
    """
    median = np.argsort(task.length_N, kind="stable")[task.num_examples // 2]
    inputs = task.batch(median[None]).to(loaded.model.device).inputs
    return 1000 * latency(loaded.model, inputs, rounds)
