"""Splits: the data sets of one task, to train and choose on, to measure on, and held out."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, final

from headcount.corpora import Columns, Data
from headcount.models import Loaded, signature
from headcount.tasks.overlap import DataSet, warning
from headcount.tasks.registry import build
from headcount.tasks.task import Task

NAMES = ("train", "dev", "test")
"""Names of the three data sets, for warnings."""


@final
@dataclass(frozen=True, eq=False)
class TaskSplits:
    """The data sets of one task, made for one model."""

    train: Task
    """The task on the data to train on or to choose heads on."""
    dev: Task
    """The task on the data to measure on; pruning also chooses a budget and stages on it."""
    test: Task | None = None
    """The task on held-out data, which no choice depends on; None if there is none."""
    warnings: tuple[str, ...] = ()
    """A sentence for every two data sets that share examples, and for texts that are truncated."""

    @property
    def measured(self) -> dict[str, Task]:
        """The data sets to measure on, by name: `dev`, and `test` if there is one."""
        return {"dev": self.dev} | ({} if self.test is None else {"test": self.test})

    @classmethod
    def build(
        cls,
        task: str,
        loaded: Loaded,
        *,
        train: Data,
        dev: Data,
        test: Data | None = None,
        columns: Columns | None = None,
        names: tuple[str, str, str] = NAMES,
        **options: Any,
    ) -> "TaskSplits":
        """Make a task on two or three data sets.

        Args:
            task: one of `TASKS`.
            loaded: the model with its tokenizer.
            train: data to train or to choose heads on: paths, `hf://...`, or columns in memory.
            dev: data to measure on.
            test: held-out data; None for none.
            columns: the task's name of a column, mapped to its name or number in the data.
            names: names of the three data sets, for warnings.
            options: further arguments of the task, e.g. `metric="f1"` or `limit=100`.

        Raises:
            ModelError: if the task does not fit the model.
            InputError: for an unknown task or option, and for data that can't be used.
        """
        held_out = None if test is None else build(task, loaded, test, columns, **options)
        learned, measured = (build(task, loaded, data, columns, **options) for data in (train, dev))
        tasks = dict(zip(names, (learned, measured, held_out), strict=True))
        given = dict(zip(names, (train, dev, test), strict=True))
        limit = options.get("limit")
        read = {
            name: DataSet(task, data, columns, limit)
            for name, data in given.items()
            if data is not None
        }
        truncated = [
            f"{name}: {sentence}"
            for name, each in tasks.items()
            if each is not None
            for sentence in each.warnings()
        ]
        return cls(learned, measured, held_out, (*_shared(read), *truncated))

    def signature(self, loaded: Loaded, seed: int, **more: object) -> str:
        """The signature of everything that numbers on these data sets depend on.

        Args:
            loaded: the model.
            seed: seed of everything that is drawn.
            more: further values, by name; those that are None are left out.
        """
        return signature(
            loaded,
            self.train.sha256,
            dev=self.dev.sha256[:12],
            test=None if self.test is None else self.test.sha256[:12],
            task=self.train.name,
            metric=self.dev.metric,
            **self.dev.signed_options,
            **more,
            seed=seed,
        )


def _shared(data_sets: Mapping[str, DataSet]) -> list[str]:
    """A warning for every two data sets that share examples."""
    found = [
        warning(data_sets[one], data_sets[other], (one, other))
        for one, other in combinations(data_sets, 2)
    ]
    return [sentence for sentence in found if sentence is not None]
