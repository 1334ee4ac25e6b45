"""Arguments that all task commands share: a model, its task and data."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import tyro
from rich.console import Console

from headcount.core import InputError, check_single_process
from headcount.models import Loaded, load
from headcount.tasks import Pooling, Task, build


def named_columns(columns: Sequence[str]) -> dict[str, str | int] | None:
    """The mapping that ROLE=NAME or ROLE=NUMBER arguments describe; None without arguments.

    >>> named_columns(["source=en", "target=de"])
    {'source': 'en', 'target': 'de'}
    """
    pairs = [column.partition("=") for column in columns]
    for role, equals, name in pairs:
        if not (role and equals and name):
            raise InputError(f"Expected columns as ROLE=NAME, got {role + equals + name!r}.")
    roles = [role for role, _, _ in pairs]
    twice = sorted({role for role in roles if roles.count(role) > 1})
    if twice:
        raise InputError(f"Expected one column for each role, got several for {', '.join(twice)}.")
    return {role: name for role, _, name in pairs} or None


TaskName = Literal["translation", "classification", "causal-lm", "masked-lm", "similarity"]

OPTIONS = {
    "translation": ("num_beams", "tokenize", "prefix"),
    "similarity": ("scale", "pooling"),
    "causal-lm": ("max_length",),
    "masked-lm": ("max_length",),
}
"""Options that only some tasks have."""


@dataclass(frozen=True)
class TaskArguments:
    """A model and the task to score it on."""

    model: tyro.conf.Positional[str]
    """A Hugging Face name, a folder, or headcount:en-de."""
    task: TaskName = field(kw_only=True)
    """Task to score the model on."""
    data: tuple[str, ...] = field(kw_only=True)
    """Files: .tsv, .csv, .jsonl, .txt (two for a translation), or
    hf://dataset/config?split=validation; commands that prune choose heads on them."""
    columns: tuple[str, ...] = ()
    """Columns as ROLE=NAME, or ROLE=NUMBER (from 0) where the file has no header."""
    metric: str | None = None
    """Score to use if the task has several: accuracy, f1, matthews; bleu, chrf."""
    num_beams: int = 4
    """Translation: number of beams in the search; 1 is greedy."""
    tokenize: str = "13a"
    """Translation: sacreBLEU's tokenizer for BLEU, e.g. zh, ja-mecab, intl."""
    prefix: str = ""
    """Translation: text to put before every source, as T5 needs."""
    languages: tuple[str, str] | None = None
    """Translation: languages of source and target, for a multilingual model: eng_Latn deu_Latn."""
    max_length: int | None = None
    """Language modelling: tokens in one piece of text; as many as the model takes by default."""
    scale: tuple[float, float] | None = None
    """Similarity: lowest and highest possible score in the data; 0 5 by default."""
    pooling: Pooling | None = None
    """Similarity: represent a sentence by the mean of its tokens or by the first one; by default
    as a sentence-transformers model states."""
    limit: int | None = None
    """Largest number of examples of each data set; all by default."""
    max_tokens: int = 4096
    """Number of padded tokens in a batch; lower it if memory runs out."""
    device: str = "cpu"
    """Device to run on, e.g. cuda."""
    dtype: Literal["float32", "bfloat16", "float16", "auto"] = "float32"
    """Number format of the model; float32 is the most exact."""

    def shared(self, **changed: Any) -> dict[str, Any]:
        """These arguments, some changed, for another command on the same model and task."""
        return {each.name: getattr(self, each.name) for each in fields(TaskArguments)} | changed

    def loaded(self) -> Loaded:
        """Load the model.

        Raises:
            InputError: If there are several processes.
        """
        check_single_process()
        return load(self.model, self.device, self.dtype, self.languages)

    def built(self, loaded: Loaded, files: tuple[str, ...], **more: Any) -> Task:
        """Build the task on some files.

        Raises:
            InputError: If an option of another task is set.
        """
        options = {"metric": self.metric, "limit": self.limit} | more
        options = {name: each for name, each in options.items() if each is not None}
        return build(
            self.task, loaded, files, named_columns(self.columns), **options, **self._of_the_task()
        )

    def _of_the_task(self) -> dict[str, Any]:
        own = OPTIONS.get(self.task, ())
        for task, names in OPTIONS.items():
            for name in set(names) - set(own):
                if getattr(self, name) != getattr(TaskArguments, name):
                    raise InputError(
                        f"--{name.replace('_', '-')} is an option of {task}, but the task is "
                        f"{self.task}. Leave it out."
                    )
        return {name: getattr(self, name) for name in own}


def print_warnings(sentences: list[str], console: Console) -> None:
    """Print each warning on its own line."""
    for sentence in sentences:
        console.print(f"warning: {sentence}", style="yellow")
