"""Names of tasks, metrics and options. Needs no torch, so that arguments are checked at once."""

from collections.abc import Mapping
from typing import Literal, get_args

from headcount.core import InputError, check_known

TaskName = Literal["translation", "classification", "causal-lm", "masked-lm", "similarity"]
Pooling = Literal["mean", "cls"]
ClassMetric = Literal["accuracy", "f1", "matthews"]
TranslationMetric = Literal["bleu", "chrf"]

METRICS: Mapping[str, tuple[str, ...]] = {
    "translation": get_args(TranslationMetric),
    "classification": get_args(ClassMetric),
}
"""Metrics of the tasks that have several."""

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "translation": ("num_beams", "tokenize", "prefix"),
    "similarity": ("scale", "pooling"),
    "causal-lm": ("max_length",),
    "masked-lm": ("max_length",),
}
"""Options that only some tasks have."""


def check_metric(task: str, metric: str | None) -> None:
    """Check that a task has a metric.

    Raises:
        InputError: If it has not.
    """
    if metric is None:
        return
    if task not in METRICS:
        raise InputError(
            f"Expected no metric for {task}, which has one score only, got {metric!r}. Leave the "
            "metric out."
        )
    check_known("a metric", metric, METRICS[task], "(one of {})")
