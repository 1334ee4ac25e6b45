"""Latency: how long a model takes for one example of middling length."""

from headcount.models.load import Loaded
from headcount.speed.clock import latency
from headcount.tasks import Task


def milliseconds(loaded: Loaded, task: Task, rounds: int = 9) -> float:
    """Median over rounds of one forward with the example whose length is the median, alone."""
    batches = list(task.batches(1))  # of one example each, by length
    inputs = batches[len(batches) // 2].to(loaded.model.device).inputs
    return 1000 * latency(loaded.model, inputs, rounds)
