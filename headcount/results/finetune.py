"""The record of a model that was trained further: the contents of `finetune.json`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from headcount.core import stored
from headcount.results.changes import DATA_SETS, DataSetChange
from headcount.results.store import Record


@final
@dataclass(frozen=True)
class FinetuneChange:
    """A model that was trained further, on one data set."""

    trained: DataSetChange = stored(flat=())
    """The change from the given to the trained model."""
    teacher: DataSetChange | None = None
    """The change from the teacher to the trained model; None without a teacher."""


@final
@dataclass(frozen=True, kw_only=True)
class FinetuneRecord(Record):
    """How a model was trained further, and every number before and after."""

    FILE = "finetune.json"
    COMMAND = "headcount finetune"
    FOLDER = "the folder of a fine-tuned model"
    DESCRIBES = ("*.safetensors",)

    data_sets: Mapping[str, FinetuneChange] = stored(flat=DATA_SETS)
    """Numbers before and after, by the data set's name: `dev` and `test`."""
    tuning: Mapping[str, Any]
    """All fields of the training's settings, by name."""
    history: tuple[Mapping[str, Any], ...] = ()
    """Log entries of the training."""
