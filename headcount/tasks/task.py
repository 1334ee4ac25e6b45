"""Task: what quality means. Data, a loss for every example, and a score over all of them.

A batch is filled up to a budget of padded tokens, the shortest rows first.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, ClassVar, Literal, TypeVar, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Int64, Shaped
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import MAX_TOKENS, InputError, Origin, Steps, signed_origins, silent_steps
from headcount.corpora import (
    Columns,
    ColumnSpec,
    Data,
    Movable,
    Noted,
    Table,
    groups_by_length,
    present,
)
from headcount.corpora import padded as padded_rows
from headcount.models import Loaded
from headcount.tasks.options import TASKS, read_examples
from headcount.tasks.supported import check_fits

Own = TypeVar("Own", bound="Task")


def groups(
    length_N: Int[np.ndarray, " example"], max_tokens: int
) -> Iterator[Int[np.ndarray, " some"]]:
    """Numbers of the examples in each batch: shortest first, ties in order.

    Args:
        length_N: padded tokens that an example needs when it is the longest.
        max_tokens: largest number of padded tokens in a batch; a longer example forms a batch.
    """
    if max_tokens < 1:
        raise InputError(
            f"Expected at least 1 token a batch, got {max_tokens}. Use a larger number."
        )
    for group in groups_by_length(range(len(length_N)), length_N.__getitem__, max_tokens):
        yield np.array(group)


def padded(rows: Sequence[Sequence[int]], fill: int) -> Int64[Tensor, "row token"]:
    """Rows of numbers, padded on the right."""
    return torch.from_numpy(padded_rows(rows, fill))


def text_inputs(
    rows: Sequence[Sequence[int]], pad_id: int
) -> dict[str, Int64[Tensor, "row token"]]:
    """Token ids with their attention mask."""
    mask_RN = torch.from_numpy(present(rows)).long()
    return {"input_ids": padded(rows, pad_id), "attention_mask": mask_RN}


def pad_id(loaded: Loaded) -> int:
    """The model's padding id (some look at the id itself), or any id that fills as well."""
    own = loaded.model.config.get_text_config().pad_token_id
    return own if isinstance(own, int) and own >= 0 else loaded.encoder().pad_id


@final
@dataclass(frozen=True, eq=False)
class TaskBatch(Movable):
    """Some examples, ready for a model."""

    inputs: dict[str, Tensor]
    """Keyword arguments of the model's forward; the first axis is the row."""
    labels: dict[str, Tensor]
    """Targets of the loss; the first axis is the example."""
    example_R: Int[Tensor, " row"]
    """The example of the batch that each row belongs to; a pair of sentences is two rows."""
    index_E: Int[Tensor, " example"]
    """The number of each example in the task's data."""

    @classmethod
    def of(
        cls,
        inputs: dict[str, Tensor],
        labels: dict[str, Tensor],
        index_E: Int[np.ndarray, " example"],
    ) -> "TaskBatch":
        """Examples with a row each."""
        return cls(inputs, labels, torch.arange(len(index_E)), torch.from_numpy(index_E))

    @property
    def num_examples(self) -> int:
        """Number of examples in the batch."""
        return len(self.index_E)

    def is_query(
        self, site: str, shape: tuple[int, int] | None = None
    ) -> Bool[Tensor, "row query"]:
        """Which tokens, excluding padding, attend at a site.

        Args:
            site: the attention site.
            shape: rows and queries there; all of them count if the model takes no mask (images,
                sound).

        Raises:
            InputError: if there is neither mask nor shape, or the mask has another shape.
        """
        decodes = site != "encoder.self" and "decoder_attention_mask" in self.inputs
        mask_RQ = self.inputs.get("decoder_attention_mask" if decodes else "attention_mask")
        if site == "vision.self":
            mask_RQ = None  # images have no padding
        if mask_RQ is not None:
            if shape is not None and mask_RQ.numel() != shape[0] * shape[1]:
                raise InputError(
                    f"Expected an attention mask of {shape[0]} by {shape[1]} for the queries at "
                    f"{site}, got one of {tuple(mask_RQ.shape)}. An encoder-decoder takes a "
                    "decoder_attention_mask too."
                )
            return mask_RQ.bool()
        if shape is None:
            raise InputError(
                "Expected an attention mask among the inputs of the task's batches, since it says "
                f"which tokens attend, got {', '.join(self.inputs)}. Add one of ones."
            )
        return torch.ones(shape, dtype=torch.bool, device=self.index_E.device)

    def repeated(self, times: int) -> "TaskBatch":
        """The batch `times` times in a row, as if there were more examples."""
        shift = torch.arange(times, device=self.example_R.device) * self.num_examples
        return TaskBatch(
            {name: torch.cat([tensor] * times) for name, tensor in self.inputs.items()},
            {name: torch.cat([tensor] * times) for name, tensor in self.labels.items()},
            (shift[:, None] + self.example_R).flatten(),
            self.index_E.repeat(times),
        )


@final
@dataclass(frozen=True, eq=False)
class Losses:
    """A model's losses on the examples of one batch."""

    loss_E: Float[Tensor, " example"]
    """Summed loss of each example, in nats if it is a cross-entropy; gradients flow."""
    count_E: Int[Tensor, " example"]
    """Number of terms in the loss: predicted tokens, or 1."""
    outcome_E: Float[Tensor, " example *outcome"]
    """The score's input: a predicted class, a cosine, or counts of the task's `outcome_shape`; NaN
    if the score is made of the losses."""


@final
@dataclass(frozen=True, eq=False)
class Answers:
    """The part of a model's output on one batch that can be distilled."""

    values: Float[Tensor, "*place answer"]
    """Logits at every place of the batch, or embeddings of its sentences at unit length."""
    labels: Int[Tensor, "*place"] | None = None
    """The number of the correct answer at each place, `IGNORED` where nothing is asked; None for
    embeddings."""


Distils = Literal["answers", "embeddings"]
"""What can be distilled: one of several at each place (logits), or embeddings."""


@final
@dataclass(frozen=True, eq=False)
class Evaluation:
    """A model's results on every example of a task, in the order of the data."""

    loss_N: Float[np.ndarray, " example"]
    count_N: Int[np.ndarray, " example"]
    outcome_N: Shaped[np.ndarray, " example *outcome"]
    """Numbers, or texts (objects) if the model writes."""

    @property
    def loss(self) -> float:
        """Mean loss over everything that was predicted."""
        return float(self.loss_N.sum() / self.count_N.sum())


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
        done = 0
        self.steps(done, self.num_examples)
        for batch in batches:
            yield batch
            done += batch.num_examples
            self.steps(done, self.num_examples)

    def watched(self: Own, steps: Steps) -> Own:
        """The same task, which reports how many of its examples were run, batch by batch.

        Args:
            steps: called with the number of examples so far, and of all.
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
