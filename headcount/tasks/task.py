"""Task: what quality means. Data, a loss for every example, and a score over all of them.

The task of a plug-in is guarded from the moment that it is made: whatever it does wrong names it.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cache, cached_property
from hashlib import sha256
from math import isnan
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int
from transformers import PreTrainedModel

from headcount.core import (
    MAX_TOKENS,
    OURS,
    REPAIR,
    InputError,
    Origin,
    PluginError,
    Steps,
    amount,
    guarded,
    origin_of_module,
    signed_origins,
    silent_steps,
)
from headcount.corpora import Columns, ColumnSpec, Data, Noted, Table
from headcount.models import Loaded, unchanged
from headcount.tasks.batch import Answers, Evaluation, Losses, TaskBatch, groups
from headcount.tasks.options import TASKS, read_examples
from headcount.tasks.supported import check_fits

Own = TypeVar("Own", bound="Task")


Distils = Literal["answers", "embeddings"]
"""What can be distilled: one of several at each place (logits), or embeddings."""


Resampled = Callable[[Int[np.ndarray, "draw sample"]], Float[np.ndarray, " draw"]]
"""Scores of one evaluation on several draws of examples."""


class Task(ABC):
    """Data with a loss and a score. A task is made for one model's tokenizer."""

    registry: ClassVar[str] = "headcount.tasks.options:TASKS"
    name: ClassVar[str]
    """Name of the task, as `--task` accepts it."""
    reads: ClassVar[ColumnSpec] = {}
    """Columns of the data of a task of your own, by the names that `--columns` takes."""
    metric: str
    """Name of the score."""
    higher_is_better: bool
    """Whether a better model has a higher score (for perplexity it is the reverse)."""
    num_examples: int
    sha256: str
    """Hash of the data and of whatever else decides the model's input, for signatures."""
    writes: ClassVar[bool] = False
    """Whether the score is over more than a forward pass gives, made by an evaluation on request:
    texts that the model writes, or what it finds in a search."""
    distils: ClassVar[Distils | None] = None
    """What `answers` returns; None if a model can't learn from another's output here."""
    outcome_shape: tuple[int, ...] = ()
    """Shape of the outcome of one example; empty for one number."""
    by_example: ClassVar[tuple[str, ...]] = ()
    """Names of the attributes that hold an entry for each example, which `some` selects."""
    num_truncated: int = 0
    """Number of texts longer than the model's limit, which were truncated."""
    noted: Noted = Noted()
    """Numbers of texts that are read in another way than they are written."""
    steps: Steps = staticmethod(silent_steps)
    """Called as the examples of `batches` are run: see `watched`."""
    counts: ClassVar[str] = ""
    """What bars count, such as seconds of sound, if not examples: see `sizes_N`."""
    noticed: dict[str, None]
    """Sentences about scores that were no number."""

    def __new__(cls: type[Own], *_: object, **__: object) -> Own:
        """A task; that of a plug-in is guarded, whoever makes it."""
        kind: Any = cls
        if origin_of_module(cls.__module__) != OURS:
            kind = _guarded_kind(cls)
        found = super().__new__(kind)
        found.noticed = {}
        return found

    def read(
        self,
        loaded: Loaded,
        data: Data,
        columns: Columns | None,
        limit: int | None,
        *checks: Callable[[Loaded], object],
    ) -> Table:
        """The table of the data, which is read once the model fits the task and passes checks.

        It sets `sha256` and `num_examples`.
        """
        check_fits(loaded.model, self.name)
        for check in checks:
            check(loaded)
        table = read_examples(self.name, data, columns, limit, self.reads)
        self.sha256, self.num_examples = table.sha256, len(table)
        return table

    @property
    def signature(self) -> str:
        """The score's full name: the metric, and whatever else a score of that name depends on."""
        plugin = signed_origins([self.its_origin])
        return f"{self.metric} of {plugin}" if plugin else self.metric

    @property
    def its_origin(self) -> Origin:
        """Where the task is from."""
        return TASKS.origin(self)

    @property
    def signed_options(self) -> Mapping[str, object]:
        """Options of the score that a signature names beside the metric, by their short names."""
        return {}

    def warnings(self) -> list[str]:
        """A sentence for each part of the data that the model does not get."""
        found = [*self.noted.warnings()]
        if self.num_truncated:
            number = f"{self.num_truncated:,}"
            found.append(f"texts longer than the model's limit are truncated: {number} of them")
        return found

    @property
    def length_N(self) -> Int[np.ndarray, " example"]:
        """Padded tokens that each example needs in a batch where it is the longest.

        Raises:
            InputError: if the task makes no batches on request.
        """
        raise self._without_examples()

    def batch(self, index_E: Int[np.ndarray, " example"]) -> TaskBatch:
        """A batch of some examples, by their numbers.

        Raises:
            InputError: if the task makes no batches on request.
        """
        raise self._without_examples()

    def training_batch(self, index_E: Int[np.ndarray, " example"], number: int) -> TaskBatch:
        """Some examples as batch `number` of a training; random parts are redrawn."""
        del number
        return self.batch(index_E)

    def some(self: Own, index_N: Int[np.ndarray, " example"]) -> Own:
        """The task with some of its examples, by their numbers.

        Raises:
            InputError: if the task does not say where its examples are.
        """
        if not self.by_example:
            raise InputError(
                f"Expected a task whose `by_example` names what it holds of each example, got "
                f"{self.name}, which names nothing, so that none can be left out. Name it."
            )
        part = copy.copy(self)
        numbers = sha256(index_N.astype("<i8").tobytes()).hexdigest()
        part.sha256 = sha256(f"{self.sha256}|{numbers}".encode()).hexdigest()
        part.num_examples = len(index_N)
        for name in self.by_example:
            held = getattr(self, name)
            is_array = isinstance(held, np.ndarray)
            setattr(part, name, held[index_N] if is_array else [held[n] for n in index_N])
        return part

    def batches(self, max_tokens: int = MAX_TOKENS) -> Iterator[TaskBatch]:
        """Every example once, sorted by length; the same batches every time."""
        return self._reported(map(self.batch, groups(self.length_N, max_tokens)))

    def _reported(self, batches: Iterator[TaskBatch]) -> Iterator[TaskBatch]:
        run_N = np.zeros(self.num_examples, bool)
        self.steps(*self.counted(run_N))
        for batch in batches:
            yield batch
            run_N[batch.index_E.cpu().numpy()] = True
            self.steps(*self.counted(run_N))

    @property
    def sizes_N(self) -> Int[np.ndarray, " example"]:
        """How far each example moves a bar: by 1, or its part of what bars count."""
        return np.ones(self.num_examples, int)

    def counted(self, run_N: Bool[np.ndarray, " example"]) -> tuple[int, int]:
        """What a bar shows once some examples were run: how much that is, and how much all are."""
        sizes_N = self.sizes_N
        return int(sizes_N[run_N].sum()), int(sizes_N.sum())

    def bar(self, stage: str) -> str:
        """The name of a stage, with what its bar counts."""
        return f"{stage}, {self.counts}" if self.counts else stage

    def watched(self: Own, steps: Steps) -> Own:
        """The same task, which reports how many of its examples were run, batch by batch.

        Args:
            steps: called with how much was run so far, and how much all is (see `sizes_N`).
        """
        found = copy.copy(self)
        found.steps = steps
        return found

    def losses(self, model: PreTrainedModel, batch: TaskBatch) -> Losses:
        """Run the model on a batch. Rows do not influence each other.

        A task implements this, or `losses_of` and, where the model takes more than the inputs of a
        batch, `output`.
        """
        return self.losses_of(self.output(model, batch), batch)

    def output(self, model: PreTrainedModel, batch: TaskBatch, **more: Any) -> Any:
        """The output of the one forward pass that losses are computed from.

        Args:
            model: the model to run.
            batch: the batch to run it on.
            more: further arguments of its forward, such as `output_hidden_states`.
        """
        return model(**batch.inputs, **more)

    def losses_of(self, output: Any, batch: TaskBatch) -> Losses:
        """Losses of a model with this output."""
        raise NotImplementedError

    def answers(self, output: Any, batch: TaskBatch) -> Answers:
        """The part of an output that can be distilled, if the task `distils` anything."""
        raise NotImplementedError

    @abstractmethod
    def score(
        self, evaluation: Evaluation, index_S: Int[np.ndarray, " sample"] | None = None
    ) -> float:
        """The score over all examples, or over those drawn (an example may appear twice)."""

    def with_texts(
        self, evaluation: Evaluation, model: PreTrainedModel, max_tokens: int = MAX_TOKENS
    ) -> Evaluation:
        """An evaluation whose outcomes are those made on request: see `writes`."""
        return evaluation

    def evaluated(self, model: PreTrainedModel, max_tokens: int, texts: bool) -> Evaluation | None:
        """The evaluation of a task that reads a text once though several examples have it.

        None if each example is run by itself, batch by batch.

        Args:
            model: model to run, which evaluates.
            max_tokens: largest number of padded tokens in a batch.
            texts: whether outcomes that are made on request are wanted, too: see `writes`.
        """
        del model, max_tokens, texts

    def resampled(self, evaluation: Evaluation) -> Resampled:
        """The score as a function of the examples drawn, for many draws from one evaluation."""
        return lambda index_DS: np.array([self.score(evaluation, index_S) for index_S in index_DS])

    def statistics(self, evaluation: Evaluation) -> Float[np.ndarray, "example statistic"] | None:
        """Counts of every example, whose sums the score is a function of (`of_sums`).

        None if the score is no such function, or if results of two models can't be exchanged
        example by example, as the cosines of two models of sentences can't.
        """
        return None

    def of_sums(self, sums_DK: Float[np.ndarray, "draw statistic"]) -> Float[np.ndarray, " draw"]:
        """Scores of many sums of `statistics`.

        Raises:
            NotImplementedError: if the task has no statistics.
        """
        raise NotImplementedError

    def _without_examples(self) -> InputError:
        return InputError(
            f"Expected a task that can be trained on, which has `length_N` and `batch`, got "
            f"{self.name}, which makes only its own batches."
        )


@cache
def _guarded_kind(kind: type[Task]) -> type[Task]:
    """The class of a plug-in's task, guarded and checked wherever it is used.

    It is derived from the plug-in's own, so that copies and parts of a task are guarded, too.
    """
    if issubclass(kind, _Guarded):
        return kind
    about = {"its_kind": kind, "__module__": kind.__module__, "__doc__": kind.__doc__}
    found: Any = type(kind.__name__, (_Guarded, kind), about)
    found.__abstractmethods__ = kind.__abstractmethods__  # what it lacks, `_Guarded` has not
    return found


class _Guarded(Task):
    """What a plug-in's task does, which may neither fail nor change a model unseen."""

    its_kind: ClassVar[type[Task]]
    """The plug-in's own class."""
    made_for: PreTrainedModel | None = None
    """The model that it was made for, once it has read its data."""

    @cached_property
    def its_origin(self) -> Origin:  # type: ignore[override]
        """Where the task is from."""
        return TASKS.origin(self.its_kind)

    def read(self, loaded: Loaded, *rest: Any) -> Table:
        """The table of the data."""
        self.made_for = loaded.model
        return super().read(loaded, *rest)

    @contextmanager
    def _guarded(self, doing: str, model: PreTrainedModel | None = None) -> Iterator[None]:
        origin = self.its_origin
        with nullcontext() if model is None else unchanged(model, origin, self, is_brief=True):
            with guarded(origin, f"{doing} of the task {self.name}", self):
                yield

    def warnings(self) -> list[str]:
        """A sentence for each part of the data that the model does not get, and each score."""
        return [*super().warnings(), *self.noticed]

    def batch(self, index_E: Int[np.ndarray, " example"]) -> TaskBatch:
        """A batch of some examples."""
        with self._guarded("make a batch", self.made_for):
            found = super().batch(index_E)
            if not isinstance(found, TaskBatch):
                raise wrong(self.its_origin, "a TaskBatch of `batch`", type(found).__name__)
            return found

    def losses(self, model: PreTrainedModel, batch: TaskBatch) -> Losses:
        """Losses of a batch: a number for each example, of a model that stays as it is."""
        with self._guarded("compute losses", model):
            found = super().losses(model, batch)
            return _checked_losses(found, self, batch.num_examples, self.its_origin)

    def with_texts(
        self, evaluation: Evaluation, model: PreTrainedModel, max_tokens: int = MAX_TOKENS
    ) -> Evaluation:
        """An evaluation with outcomes that are made on request."""
        with self._guarded("make outcomes", model):
            return super().with_texts(evaluation, model, max_tokens)

    def score(
        self, evaluation: Evaluation, index_S: Int[np.ndarray, " sample"] | None = None
    ) -> float:
        """The score, which is a number; if that of all examples is NaN, `warnings` says so."""
        with self._guarded("compute the score"):
            found = super().score(evaluation, index_S)  # type: ignore[safe-super]
            score = _checked_score(found, self.its_origin)
        every_N = np.arange(len(evaluation.loss_N))
        if isnan(score) and (index_S is None or np.array_equal(index_S, every_N)):
            text = (
                f"{self.metric} of the task {self.name} of the plug-in {self.its_origin} has no "
                f"number (NaN) on {amount(len(every_N), 'example')}"
            )
            self.noticed[text] = None
        return score


def _checked_losses(losses: object, task: Task, number: int, origin: Origin) -> Losses:
    """Losses, counts and outcomes of some examples."""
    if not isinstance(losses, Losses):
        raise wrong(origin, "Losses of `losses`", type(losses).__name__)
    shapes = {"loss_E": (number,), "count_E": (number,)}
    shapes |= {"outcome_E": (number, *task.outcome_shape)}
    if not losses.loss_E.is_floating_point():
        raise wrong(origin, "loss_E in floating point", str(losses.loss_E.dtype))
    for name, shape in shapes.items():
        if (got := tuple(getattr(losses, name).shape)) != shape:
            raise wrong(origin, f"{name} of shape {shape} for {number} examples", f"{got}")
    return losses


def _checked_score(score: object, origin: Origin) -> float:
    if not isinstance(score, float | int):
        raise wrong(origin, "a number as the score", type(score).__name__)
    return float(score)


def wrong(origin: Origin, expected: str, got: str) -> PluginError:
    """The error that a plug-in's task returned something else."""
    return PluginError(f"Expected {expected} from the plug-in {origin}, got {got}. {REPAIR}")
