"""Tasks by name, as `--task` accepts them."""

from collections.abc import Callable
from inspect import signature
from typing import Any

from transformers import PreTrainedModel

from headcount.core import InputError, check_choice, check_known
from headcount.corpora import Columns, Data
from headcount.models import Loaded, as_loaded
from headcount.tasks.causal import CausalLanguageModelling
from headcount.tasks.choice import Choice
from headcount.tasks.classification import Classification
from headcount.tasks.image_classification import ImageClassification
from headcount.tasks.masked import MaskedLanguageModelling
from headcount.tasks.metrics import Scale
from headcount.tasks.options import SPEARMAN, ClassMetric
from headcount.tasks.regression import Regression, is_regression
from headcount.tasks.similarity import Similarity
from headcount.tasks.task import Task
from headcount.tasks.token_classification import TokenClassification
from headcount.tasks.translation import Translation


def classification(
    loaded: Loaded,
    data: Data,
    columns: Columns | None = None,
    metric: str | None = None,
    scale: Scale | None = None,
    limit: int | None = None,
) -> Task:
    """Classes, or numbers if the model has one output; see `Classification` and `Regression`.

    Raises:
        InputError: for a metric or a scale that the model's answer does not have.
    """
    if is_regression(loaded):
        if metric not in (None, SPEARMAN):
            raise InputError(
                f"Expected the metric spearman for {loaded.name}, since a classifier with one "
                f"output answers with a number, got {metric}. Leave the metric out."
            )
        return Regression(loaded, data, columns, scale, limit)
    if scale is not None:
        raise InputError(
            f"Expected no scale for {loaded.name}, since it answers with one of "
            f"{loaded.model.config.num_labels} classes, got {scale[0]:g} to {scale[1]:g}. Leave "
            "the scale out."
        )
    chosen: Any = "accuracy" if metric is None else metric
    check_choice("a metric", chosen, ClassMetric)
    return Classification(loaded, data, columns, chosen, limit)


TASKS: dict[str, Callable[..., Task]] = {
    "translation": Translation,
    "classification": classification,
    "causal-lm": CausalLanguageModelling,
    "masked-lm": MaskedLanguageModelling,
    "similarity": Similarity,
    "image-classification": ImageClassification,
    "token-classification": TokenClassification,
    "choice": Choice,
}


def build(
    name: str,
    loaded: Loaded | PreTrainedModel,
    files: Data,
    columns: Columns | None = None,
    **options: Any,
) -> Task:
    """Make a task on some data, for one model.

    Args:
        name: one of `TASKS`.
        loaded: the model with its tokenizer.
        files: paths, `hf://...`, or columns held in memory.
        columns: the task's name of a column, mapped to its name or number in the data.
        options: further arguments of the task, e.g. `metric="f1"`.

    Raises:
        ModelError: if the task does not fit the model; says which tasks do.
        InputError: for an unknown task or option, and for data that can't be used.
    """
    loaded = as_loaded(loaded)
    check_known("a task", name, TASKS)
    known = list(signature(TASKS[name]).parameters)[3:]
    for option in options:
        check_known(f"an option of {name}", option, known, "({})")
    return TASKS[name](loaded, files, columns, **options)
