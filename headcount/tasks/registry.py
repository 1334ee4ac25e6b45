"""Tasks by name, as `--task` accepts them."""

from collections.abc import Callable
from inspect import signature
from typing import Any

from transformers import PreTrainedModel

from headcount.core import check_known
from headcount.corpora import Columns, Data
from headcount.models import Loaded, as_loaded
from headcount.tasks.causal import CausalLanguageModelling
from headcount.tasks.classification import Classification
from headcount.tasks.image_classification import ImageClassification
from headcount.tasks.masked import MaskedLanguageModelling
from headcount.tasks.similarity import Similarity
from headcount.tasks.task import Task
from headcount.tasks.translation import Translation

TASKS: dict[str, Callable[..., Task]] = {
    "translation": Translation,
    "classification": Classification,
    "causal-lm": CausalLanguageModelling,
    "masked-lm": MaskedLanguageModelling,
    "similarity": Similarity,
    "image-classification": ImageClassification,
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
