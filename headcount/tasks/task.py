"""Task: what quality means. Data, a loss for every example, and a score over all of them.

Rows of tokens: texts cut into pieces that fit the model, rows padded and put into batches.

No token is lost. A batch is filled up to a budget of padded tokens, the shortest rows first.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, ClassVar, Literal, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Int64, Shaped
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import MAX_TOKENS, InputError, Steps, amount, silent_steps
from headcount.corpora import (
    Encoded,
    Encoder,
    Movable,
    Table,
    chat_tokens,
    groups_by_length,
    present,
)
from headcount.corpora import padded as padded_rows
from headcount.models import Loaded


def whole_texts(loaded: Loaded, table: Table) -> list[Encoded]:
    """Encode the column `text`, however long its texts are."""
    return whole_encoder(loaded).sources(table.sentences("text"))


def whole_encoder(loaded: Loaded) -> Encoder:
    """The encoder of texts that are cut later, not truncated."""
    return Encoder(loaded.encoder().tokenizer)


def predicted(
    loaded: Loaded, table: Table, roles: Sequence[str]
) -> list[tuple[list[int], list[bool] | None]]:
    """The tokens of each text or chat, and which are predicted: of a chat, those of some roles.

    Args:
        loaded: the model with its tokenizer.
        table: texts and chats.
        roles: whose messages are predicted; of all roles if there is none.
    """
    encoder, found = whole_encoder(loaded), list[tuple[list[int], list[bool] | None]]()
    sentences = table.sentences("text")
    texts = iter(encoder.sources([each for each in sentences if each.messages is None]))
    for sentence in sentences:
        if sentence.messages is None:
            found.append((next(texts).ids, None))
        else:
            chat = chat_tokens(encoder.tokenizer, sentence.messages, sentence.origin)
            asked = [role in roles if roles else role is not None for role in chat.roles]
            found.append((chat.ids, asked))
    return found


def piece_length(loaded: Loaded, max_length: int | None) -> int | None:
    """Number of tokens in a piece: as many as requested, or the model's limit.

    Raises:
        InputError: if more are requested than the model accepts.
    """
    longest = loaded.max_length
    if max_length is not None and longest is not None and max_length > longest:
        raise InputError(
            f"Expected pieces of at most {amount(longest, 'token')}, the limit of {loaded.name}, "
            f"got max_length={max_length}."
        )
    return longest if max_length is None else max_length


def chained(
    ids: Sequence[int],
    max_length: int | None,
    start: Sequence[int] = (),
    is_asked: Sequence[bool] | None = None,
) -> Iterator[tuple[list[int], list[bool]]]:
    """Pieces of a text, and which of their tokens are predicted.

    A piece begins with `start` and the last token of the piece before, so each token of the text
    except the first is predicted once. A piece of which no token is predicted is left out.

    Args:
        ids: the complete text, which begins with `start` itself.
        max_length: largest number of tokens in a piece.
        start: what every piece begins with.
        is_asked: which tokens of the text are predicted; None for all.
    """
    size = max(2, len(ids)) if max_length is None else max_length
    if size < len(start) + 2:
        added = f", since every piece begins with {len(start)} of its own" if start else ""
        raise InputError(
            f"Expected at least {len(start) + 2} tokens in a piece{added}, got "
            f"max_length={max_length}."
        )
    asked, before = [True] * len(ids) if is_asked is None else is_asked, len(start) + 1
    steps = [(1, size), *((at, at + size - before) for at in range(size, len(ids), size - before))]
    for begin, end in steps:
        if any(asked[begin:end]):
            front = [*(start if begin > 1 else ()), ids[begin - 1]]
            yield [*front, *ids[begin:end]], [False] * len(front) + list(asked[begin:end])


def framed(encoded: Encoded, max_length: int | None) -> Iterator[tuple[list[int], list[bool]]]:
    """Pieces between the special tokens of the complete text, and which tokens are special."""
    content = [index for index, special in enumerate(encoded.is_special) if not special]
    if not content:
        return
    begin, end = content[0], content[-1] + 1
    before, inside, after = encoded.ids[:begin], encoded.ids[begin:end], encoded.ids[end:]
    step = len(inside) if max_length is None else max_length - len(before) - len(after)
    if step < 1:
        raise InputError(
            f"Expected more than {amount(len(before) + len(after), 'token')} in a piece, since "
            f"that many are special, got max_length={max_length}."
        )
    for start in range(0, len(inside), step):
        special = encoded.is_special[begin:end][start : start + step]
        flags = [True] * len(before) + special + [True] * len(after)
        yield [*before, *inside[start : start + step], *after], flags


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
            {name: _tiled(tensor, times) for name, tensor in self.inputs.items()},
            {name: _tiled(tensor, times) for name, tensor in self.labels.items()},
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

    name: ClassVar[str]
    """Name of the task, as `--task` accepts it."""
    metric: str
    """Name of the score."""
    higher_is_better: bool
    """Whether a better model has a higher score (for perplexity it is the reverse)."""
    num_examples: int
    sha256: str
    """Hash of the data and of whatever else decides the model's input, for signatures."""
    writes: ClassVar[bool] = False
    """Whether the score is over texts that the model writes, made by an evaluation on request."""
    distils: ClassVar[Distils | None] = None
    """What `answers` returns: one of several at each place (logits), or embeddings; None if a model
    can't learn from another's output here."""
    outcome_shape: tuple[int, ...] = ()
    """Shape of the outcome of one example; empty for one number."""
    num_truncated: int = 0
    """Number of texts longer than the model's limit, which were truncated."""
    steps: Steps = staticmethod(silent_steps)
    """Called as the examples of `batches` are run: see `watched`."""

    @property
    def signature(self) -> str:
        """The score's full name: the metric, and whatever else a score of that name depends on."""
        return self.metric

    @property
    def signed_options(self) -> Mapping[str, object]:
        """Options of the score that a signature names beside the metric, by their short names."""
        return {}

    def warnings(self) -> list[str]:
        """A sentence for each part of the data that the model does not get."""
        if not self.num_truncated:
            return []
        number = f"{self.num_truncated:,}"
        return [f"texts longer than the model's limit are truncated: {number} of them"]

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

    def sha256_of(self, index_N: Int[np.ndarray, " example"]) -> str:
        """Hash of some of the examples, by their numbers."""
        numbers = sha256(index_N.astype("<i8").tobytes()).hexdigest()
        return sha256(f"{self.sha256}|{numbers}".encode()).hexdigest()

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

    def watched(self, steps: Steps) -> "Task":
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
        """An evaluation whose outcomes are the texts that the model writes, if it writes any."""
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


def _tiled(tensor: Tensor, times: int) -> Tensor:
    return tensor.repeat(times, *[1] * (tensor.ndim - 1))
