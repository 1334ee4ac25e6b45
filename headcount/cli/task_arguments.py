"""What `evaluate`, `prune` and `curve` share: a model, its task and data."""

from dataclasses import dataclass, field
from typing import Any, Literal

import tyro

from headcount.cli.columns import named_columns
from headcount.errors import InputError
from headcount.models.load import Loaded, load
from headcount.tasks import Task, build

TaskName = Literal["translation", "classification", "causal-lm", "masked-lm", "similarity"]


@dataclass(frozen=True)
class TaskArguments:
    """A model and what it is to be good at."""

    model: tyro.conf.Positional[str]
    """A Hugging Face name, a folder, or headcount:en-de."""
    task: TaskName = field(kw_only=True)
    """What the model is to be good at."""
    data: tuple[str, ...] = field(kw_only=True)
    """Files: .tsv, .csv, .jsonl, .txt; two text files for a translation; or hf://NAME. What heads
    are chosen with, where some are."""
    columns: tuple[str, ...] = ()
    """Columns as ROLE=NAME, or ROLE=NUMBER (from 0) where the file has no header."""
    metric: str | None = None
    """The task's score where it has several: accuracy, f1, matthews; bleu, chrf."""
    num_beams: int = 4
    """Translation: beams of the search; 1 is greedy."""
    tokenize: str = "13a"
    """Translation: sacreBLEU's tokenizer of BLEU, e.g. zh, ja-mecab, intl."""
    prefix: str = ""
    """Translation: goes before every source, as T5 wants it."""
    limit: int | None = None
    """At most so many examples of each data set."""
    max_tokens: int = 4096
    """Padded tokens in a batch."""
    device: str = "cpu"
    """Where to run, e.g. cuda."""
    dtype: Literal["float32", "bfloat16", "float16", "auto"] = "float32"
    """Number format of the model."""

    def loaded(self) -> Loaded:
        """The model."""
        return load(self.model, self.device, self.dtype)

    def built(self, loaded: Loaded, files: tuple[str, ...], **more: Any) -> Task:
        """The task on some files.

        Raises:
            InputError: for an option of translation with another task.
        """
        options = {"metric": self.metric, "limit": self.limit} | more
        options = {name: each for name, each in options.items() if each is not None}
        return build(self.task, loaded, files, named_columns(self.columns),
                     **options, **self._of_translation())  # fmt: skip

    def _of_translation(self) -> dict[str, Any]:
        names = ("num_beams", "tokenize", "prefix")
        if self.task == "translation":
            return {name: getattr(self, name) for name in names}
        for name in names:
            if getattr(self, name) != getattr(TaskArguments, name):
                raise InputError(
                    f"--{name.replace('_', '-')} is an option of translation; the task is "
                    f"{self.task}: leave it out"
                )
        return {}
