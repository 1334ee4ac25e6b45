"""The arguments of a model and the task to score it on, and whether options fit the task."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

from headcount import models, tasks
from headcount.commands.arguments import ModelArguments, Reading, check_data
from headcount.commands.console import Report, plain_console, print_warnings, shown
from headcount.core import InputError, check_known
from headcount.corpora import (
    HowRead,
    ReadAs,
    are_chats,
    check_columns,
    check_limit,
    check_names_judgements,
    check_reads_sound,
    image_files,
    is_beir,
    is_treebank,
    named_columns,
    read_recordings,
    template_values,
    treebank_column,
)
from headcount.tasks import (
    OPTIONS,
    SEARCH,
    TASKS,
    TRANSCRIPTION,
    TaskOptions,
    check_metric,
    check_roles,
    columns_of,
)


@dataclass(frozen=True)
class TaskArguments(TaskOptions, ModelArguments):
    """A model and the task to score it on."""

    task: Annotated[str, TASKS] = field(kw_only=True)
    """Task to score the model on."""
    reading: Reading = field(default_factory=HowRead, kw_only=True)

    def shared(self, **changed: Any) -> dict[str, Any]:
        """These arguments, some changed, for another command on the same model and task."""
        return {each.name: getattr(self, each.name) for each in fields(TaskArguments)} | changed

    def check(self) -> None:
        """Check everything that needs no model.

        Raises:
            InputError: If a file does not exist, or an option does not fit the task.
        """
        check_known("a task", self.task, TASKS, "(one of {})")
        super().check()
        check_limit(self.limit)
        self.check_data(self.data)
        check_metric(self.task, self.metric)
        self._of_the_task()
        self.check_columns(self.data)
        self._check_length()

    def _check_length(self) -> None:
        """Check the length of pieces by the model's configuration."""
        if self.max_length is None:
            return
        if self.max_length < 2:
            raise InputError(
                f"Expected --max-length of at least 2 tokens, got {self.max_length}. Leave it out "
                "for the model's limit."
            )
        models.Stated.of(self.model, self.trust_remote_code).check_length(self.max_length)

    def check_data(self, files: Sequence[str]) -> None:
        """Check that the task's files of data exist; only images and sound may be in folders.

        Raises:
            CorpusError: If one does not exist, or is a folder without images or sound.
        """
        may_be_folders = self._reads_images or self.task == TRANSCRIPTION
        folders = [file for file in files if may_be_folders and Path(file).is_dir()]
        if self.task == SEARCH:
            for file in files:
                check_names_judgements(Path(file))
        check_data([file for file in files if file not in folders])
        for folder in folders:
            image_files(Path(folder)) if self._reads_images else read_recordings(folder)
        if self.task == TRANSCRIPTION:
            check_reads_sound()

    @property
    def _reads_images(self) -> bool:
        return self.task == "image-classification"

    def check_columns(self, files: Sequence[str]) -> None:
        """Check that data files have the task's columns, by their first rows.

        Raises:
            CorpusError: If one lacks a column; says what to give.
            InputError: If the columns given are not the task's.
        """
        pairs = self.task == "translation"
        if self.task == "token-classification" and any(map(is_treebank, files)):
            treebank_column(named_columns(self.columns), columns_of(self.task))
            return
        may_be_folders = self._reads_images or self.task == TRANSCRIPTION
        if may_be_folders and any(Path(file).is_dir() for file in files):
            return
        if self.task == SEARCH and any(is_beir(Path(file)) for file in files):
            return
        columns, roles = named_columns(self.columns), columns_of(self.task)
        data = self.given(files)
        check_columns(data, columns, roles, pairs)
        if self.roles:
            check_roles(self.roles, are_chats(data, columns, roles))

    def given(self, files: Sequence[str]) -> ReadAs:
        """Files, and how they are read."""
        return ReadAs(files, self.reading)

    def built(
        self,
        loaded: "models.Loaded",
        files: tuple[str, ...],
        seed: int = 0,
        progress: Report | None = None,
    ) -> "tasks.Task":
        """Build the task on some files, with masks drawn by a seed.

        Args:
            loaded: The model.
            files: The data.
            seed: The seed.
            progress: Shows how far recordings are read; by default bars of its own.
        """
        columns, options = named_columns(self.columns), self.options(seed)
        with shown() if progress is None else nullcontext(progress) as report:
            return tasks.build(self.task, loaded, self.given(files), columns, report, **options)

    def task_on(
        self, loaded: "models.Loaded", files: tuple[str, ...], seed: int = 0
    ) -> "tasks.Task":
        """Build the task on some files, and print its warnings."""
        task = self.built(loaded, files, seed)
        print_warnings(task.warnings(), plain_console())
        return task

    def options(self, seed: int = 0) -> dict[str, Any]:
        """The options of the task, with masks drawn by a seed.

        Raises:
            InputError: If an option of another task is set.
        """
        masking = tasks.Masking(seed) if self.task == "masked-lm" else None
        options = {"metric": self.metric, "limit": self.limit, "masking": masking}
        given = {name: each for name, each in options.items() if each is not None}
        return given | self._of_the_task()

    def _of_the_task(self) -> dict[str, Any]:
        """The options of the task.

        Raises:
            InputError: If an option of another task is set.
        """
        if self.task_options and self.task in tasks.TASKS.own:
            raise InputError(
                f"--task-options are those of a task of your own, but the task is {self.task}. "
                "Leave them out."
            )
        own = OPTIONS.get(self.task, ())
        for names in OPTIONS.values():
            for name in set(names) - set(own):
                if getattr(self, name) != getattr(TaskArguments, name):
                    raise InputError(
                        f"--{name.replace('_', '-')} is an option of {_tasks_with(name)}, but "
                        f"the task is {self.task}. Leave it out."
                    )
        return {name: getattr(self, name) for name in own} | template_values(
            self.task_options, "options of the task"
        )


def _tasks_with(option: str) -> str:
    """The tasks that have an option."""
    return " and ".join(task for task, names in OPTIONS.items() if option in names)
