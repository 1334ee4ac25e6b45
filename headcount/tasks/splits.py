"""Splits: the data sets of one task, to train and choose on, to measure on, and held out.

Examples that two of them share make measurements too good, so that the user is warned.

Drawn: a random subset of a task's examples, if using all of them would cost too much.

Tasks by name, as `--task` accepts them. Those of plug-ins are tried on a small batch before
anything is measured with them.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import combinations
from typing import Any, final

import numpy as np
import torch
from transformers import PreTrainedModel

from headcount.core import (
    OURS,
    InputError,
    Origin,
    Progress,
    amount,
    brief_repr,
    check_choice,
    check_known,
    guarded,
    signed_origins,
    silent,
)
from headcount.corpora import QUERY, Columns, Data, image_digests
from headcount.models import Loaded, as_loaded, signature, unchanged
from headcount.numbers import percent
from headcount.tap import evaluating, input_device
from headcount.tasks.batch import Evaluation
from headcount.tasks.classification import Classification
from headcount.tasks.metrics import Scale
from headcount.tasks.options import (
    MORE_TARGETS,
    SEARCH,
    SPEARMAN,
    TASKS,
    ClassMetric,
    read_examples,
)
from headcount.tasks.regression import Regression, is_regression
from headcount.tasks.task import Task, wrong


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


def build(
    name: str,
    loaded: Loaded | PreTrainedModel,
    files: Data,
    columns: Columns | None = None,
    progress: Progress = silent,
    **options: Any,
) -> Task:
    """Make a task on some data, for one model.

    Args:
        name: one of `TASKS`.
        loaded: the model with its tokenizer.
        files: paths, `hf://...`, or columns held in memory.
        columns: the task's name of a column, mapped to its name or number in the data.
        progress: called while recordings are read.
        options: further arguments of the task, e.g. `metric="f1"`.

    Raises:
        ModelError: if the task does not fit the model; says which tasks do.
        InputError: for an unknown task or option, and for data that can't be used.
    """
    loaded = as_loaded(loaded)
    make, origin = TASKS.find(name), TASKS.origin(name)
    known = list(inspect.signature(make).parameters)[3:]
    if origin == OURS and "progress" in known:
        options["progress"] = progress
    for option in options:
        check_known(f"an option of {name}", option, known, "({})")
    if origin == OURS:
        return make(loaded, files, columns, **options)
    with unchanged(loaded, origin), guarded(origin, f"make the task {name}"):
        named = {name: each for name, each in options.items() if name != "limit"}
        return tried(make(loaded, files, columns, **options), loaded, origin, named)


def drawn(task: Task, most: int, seed: int = 0) -> Task:
    """Draw at most `most` examples without replacement; returns the task itself if it has no more.

    Args:
        task: the task with all examples.
        most: largest number of examples.
        seed: seed of the draw.

    Raises:
        InputError: for a larger task that makes only its own batches.
    """
    if task.num_examples <= most:
        return task
    index_N = np.sort(np.random.default_rng(seed).choice(task.num_examples, most, replace=False))
    return task.some(index_N)


NAMES = ("train", "dev", "test")
"""Names of the three data sets, for warnings."""


MOST_SHARED = 0.01
"""Largest share of a data set's queries that another one may hold."""


GOLD = frozenset({"target", *MORE_TARGETS, "label", "labels", "score", "answer"})
"""Columns with the right answer; examples count as the same if all other columns are equal."""


@final
@dataclass(frozen=True, eq=False)
class TaskSplits:
    """The data sets of one task, made for one model; `TaskSplits.build` makes them from files.

    >>> TaskSplits.build(  # doctest: +SKIP
    ...     "translation", loaded, train="train.tsv", dev="dev.tsv", test="test.tsv"
    ... )
    """

    __repr__ = brief_repr

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

    @property
    def noticed(self) -> tuple[str, ...]:
        """A sentence for every score that was no number since they were made."""
        tasks = (self.train, self.dev, *self.measured.values())
        return (*dict.fromkeys(each for task in tasks for each in task.noticed),)

    @classmethod
    def build(
        cls,
        task: str,
        loaded: Loaded | PreTrainedModel,
        *,
        train: Data,
        dev: Data,
        test: Data | None = None,
        columns: Columns | None = None,
        names: tuple[str, str, str] = NAMES,
        progress: Progress = silent,
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
            progress: called while recordings are read.
            options: further arguments of the task, e.g. `metric="f1"` or `limit=100`.

        Raises:
            ModelError: if the task does not fit the model.
            InputError: for an unknown task or option, and for data that can't be used.
        """
        loaded = as_loaded(loaded)
        held_out, learned, measured = (
            None if data is None else build(task, loaded, data, columns, progress, **options)
            for data in (test, train, dev)
        )
        assert learned is not None and measured is not None
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


@final
@dataclass(frozen=True)
class DataSet:
    """Files of a task, and how to read them."""

    task: str
    files: Data
    columns: Columns | None = None
    limit: int | None = None

    def inputs(self) -> list[tuple[str, ...]]:
        """The model's inputs, one tuple for each example."""
        table = read_examples(self.task, self.files, self.columns, self.limit)
        if self.task == SEARCH:  # splits share passages, but no queries
            return [(query,) for query in dict.fromkeys(table[QUERY]) if query]
        if "audio" in table:  # likewise
            return [(digest,) for digest in image_digests(table["audio"])]
        if "image" in table:  # the same one may have several names
            return [(digest,) for digest in image_digests(table["image"])]
        given = [cells for role, cells in table.columns.items() if role not in GOLD]
        return list(zip(*given, strict=True))


def warning(one: DataSet, other: DataSet, names: tuple[str, str]) -> str | None:
    """A warning if two data sets share inputs, otherwise None.

    Args:
        one: the data to choose heads or train on.
        other: the data to measure on.
        names: names of the two, for the warning.

    Raises:
        InputError: if they share more queries than `MOST_SHARED`.
    """
    known, inputs = set(one.inputs()), other.inputs()
    shared = sum(each in known for each in inputs)
    if not shared:
        return None
    if one.task == SEARCH and shared > MOST_SHARED * len(inputs):
        raise InputError(
            f"Expected queries of {names[1]} that are not in {names[0]}, got {shared:,} of "
            f"{len(inputs):,} that are, more than {percent(MOST_SHARED)}. Remove them."
        )
    return (
        f"{shared:,} of {amount(len(inputs), 'example')} of {names[1]} are in {names[0]} too: "
        f"results on {names[1]} are better than they would be on new data"
    )


def _shared(data_sets: Mapping[str, DataSet]) -> list[str]:
    """A warning for every two data sets that share examples."""
    found = [
        warning(data_sets[one], data_sets[other], (one, other))
        for one, other in combinations(data_sets, 2)
    ]
    return [sentence for sentence in found if sentence is not None]


_TRIED = 2
"""Number of examples to try."""


def tried(task: object, loaded: Loaded, origin: Origin, options: Mapping[str, object]) -> Task:
    """A plug-in's task, signed by it and by options, once it was run on a few examples.

    Raises:
        PluginError: If it is no task, lacks words, or its losses or its score are no numbers.
    """
    task = check_works(task, loaded, origin)
    named = "".join(f"|{name}={options[name]!r}" for name in sorted(options))
    signed = f"{task.sha256}|{signed_origins([origin])}{named}"
    task.sha256 = sha256(signed.encode()).hexdigest()
    return task


def check_works(task: object, loaded: Loaded, origin: Origin) -> Task:
    """Run a task on a few examples; returns it.

    Raises:
        PluginError: If it is no task, lacks words, or its losses or its score are no numbers.
    """
    if not isinstance(task, Task):
        raise wrong(origin, "a Task", type(task).__name__)
    needed = ("name", "metric", "higher_is_better", "num_examples", "sha256")
    if lacking := [each for each in needed if getattr(task, each, None) in (None, "")]:
        raise wrong(origin, f"a task with {' and '.join(lacking)}", "none")
    if task.length_N.shape != (task.num_examples,):
        expected = f"length_N of {amount(task.num_examples, 'example')}"
        raise wrong(origin, expected, f"shape {task.length_N.shape}")
    batch = task.batch(np.arange(min(_TRIED, task.num_examples)))
    with evaluating(loaded.model), torch.inference_mode():
        losses = task.losses(loaded.model, batch.to(input_device(loaded.model)))
    arrays = losses.loss_E.double(), losses.count_E, losses.outcome_E.double()
    found = [each.cpu().numpy() for each in arrays]
    if not np.isfinite(found[0]).all():
        raise wrong(origin, "finite losses", f"{found[0].tolist()}")
    if not task.writes:  # as if all examples had the results of these few
        whole = (np.resize(each, (task.num_examples, *each.shape[1:])) for each in found)
        task.score(Evaluation(*whole))
    return task
