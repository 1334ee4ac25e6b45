"""Arguments that all task commands share: a model, its task and data."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from headcount import tasks
from headcount.cli.model_arguments import ModelArguments, check_model
from headcount.core import CorpusError, InputError, check_single_process
from headcount.corpora import HUB
from headcount.tasks import OPTIONS, Pooling, TaskName, check_metric

if TYPE_CHECKING:
    from headcount.models import Loaded


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


def check_data(files: Iterable[str | Path]) -> None:
    """Check that files of data exist; data sets of the hub are not looked up.

    Raises:
        CorpusError: If one does not exist or is a folder.
    """
    for file in files:
        if str(file).startswith(HUB):
            continue
        if not Path(file).exists():
            raise CorpusError(
                f"Expected a file with data, but {file} does not exist. Check the path."
            )
        if Path(file).is_dir():
            raise CorpusError(f"Expected a file at {file}, got a folder. Name the files in it.")


@dataclass(frozen=True)
class TaskArguments(ModelArguments):
    """A model and the task to score it on."""

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

    def shared(self, **changed: Any) -> dict[str, Any]:
        """These arguments, some changed, for another command on the same model and task."""
        return {each.name: getattr(self, each.name) for each in fields(TaskArguments)} | changed

    def check(self) -> None:
        """Check everything that needs no model.

        Raises:
            InputError: If there are several processes, a file does not exist, or an option does
                not fit the task.
        """
        check_single_process()
        check_model(self.model)
        check_data(self.data)
        check_metric(self.task, self.metric)
        named_columns(self.columns)
        self._of_the_task()

    def built(self, loaded: "Loaded", files: tuple[str, ...], **more: Any) -> "tasks.Task":
        """Build the task on some files."""
        columns = named_columns(self.columns)
        return tasks.build(self.task, loaded, files, columns, **self.options(), **more)

    def options(self) -> dict[str, Any]:
        """The options of the task.

        Raises:
            InputError: If an option of another task is set.
        """
        options = {"metric": self.metric, "limit": self.limit}
        given = {name: each for name, each in options.items() if each is not None}
        return given | self._of_the_task()

    def _of_the_task(self) -> dict[str, Any]:
        """The options of the task.

        Raises:
            InputError: If an option of another task is set.
        """
        own = OPTIONS.get(self.task, ())
        for task, names in OPTIONS.items():
            for name in set(names) - set(own):
                if getattr(self, name) != getattr(TaskArguments, name):
                    raise InputError(
                        f"--{name.replace('_', '-')} is an option of {task}, but the task is "
                        f"{self.task}. Leave it out."
                    )
        return {name: getattr(self, name) for name in own}


def print_warnings(sentences: Iterable[str], console: Console) -> None:
    """Print each warning on its own line."""
    for sentence in sentences:
        console.print(f"warning: {sentence}", style="yellow")
