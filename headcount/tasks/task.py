"""Task: what quality means. Data, a loss for every example, and a score over all of them.

Which tasks a model can do: those that score the head it was trained with.

A model with another head, such as one that answers questions, has no task. The cosine of mean
states is what a bare encoder and a sentence-transformers model give; it is not the answer of a
model with a head, whose own answer it would ignore.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, ClassVar, Literal, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from transformers import PreTrainedModel
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

from headcount.core import MAX_TOKENS, InputError, ModelError, Steps, silent_steps
from headcount.models import EMBEDS, NotLookedUpError, SentenceEncoding
from headcount.tasks.token_rows import groups


@final
@dataclass(frozen=True)
class Need:
    """A task's requirement on a model, in words and as a test."""

    words: str
    met: Callable[[PreTrainedModel], bool]


def fitting(model: PreTrainedModel) -> list[str]:
    """Names of the tasks that fit the model."""
    return [name for name, need in NEEDS.items() if need.met(model)]


def check_fits(model: PreTrainedModel, task: str) -> None:
    """Check that a model fits the task.

    Raises:
        ModelError: if it does not; says which tasks do.
    """
    if NEEDS[task].met(model):
        return
    raise ModelError(
        f"Expected {NEEDS[task].words} for {task}, got "
        f"{model.config.name_or_path or 'the model'}, a {type(model).__name__} ({_kind(model)}). "
        f"Tasks that fit: {', '.join(fitting(model)) or 'none'}."
    )


def _kind(model: PreTrainedModel) -> str:
    if model.main_input_name != "input_ids":
        return f"its input is {model.main_input_name}"
    if model.config.is_encoder_decoder:
        return "an encoder-decoder"
    return "an encoder" if _is_encoder(model) else "a decoder"


def _is_encoder(model: PreTrainedModel) -> bool:
    """Whether attention goes both ways: the families of masked language models, and encoders."""
    config = model.config
    known = config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES or _named(model, "EncoderModel")
    return known and not config.is_encoder_decoder and not getattr(config, "is_decoder", False)


def _named(model: PreTrainedModel, *endings: str) -> bool:
    """Whether the class, or a base class, has such a name."""
    return any(base.__name__.endswith(endings) for base in type(model).__mro__)


def _takes_text(model: PreTrainedModel) -> bool:
    return model.main_input_name == "input_ids"


def _translates(model: PreTrainedModel) -> bool:
    return _takes_text(model) and model.config.is_encoder_decoder and model.can_generate()


def _classifies(model: PreTrainedModel) -> bool:
    return _takes_text(model) and _named(model, "ForSequenceClassification")


def _classifies_images(model: PreTrainedModel) -> bool:
    kinds = ("ForImageClassification", "ForImageClassificationWithTeacher")
    return model.main_input_name == "pixel_values" and _named(model, *kinds)


def _continues(model: PreTrainedModel) -> bool:
    """Whether a model has a next-token head on a body that sees no later token."""
    heads = _named(model, "ForCausalLM", *_class_names(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES))
    config = model.config
    return _takes_text(model) and heads and not config.is_encoder_decoder and not _is_encoder(model)


def _fills(model: PreTrainedModel) -> bool:
    return _takes_text(model) and _named(model, "ForMaskedLM")


def _labels_words(model: PreTrainedModel) -> bool:
    return _takes_text(model) and _named(model, "ForTokenClassification")


def _embeds(model: PreTrainedModel) -> bool:
    """Whether a model gives states of a text: it has no head, or a folder says how to pool them.

    Such a folder may name a class with a head, which was there before it was trained.
    """
    if not (_takes_text(model) and _is_encoder(model)):
        return False
    is_bare = model.base_model is model
    try:
        stated = SentenceEncoding.of(model.config.name_or_path or "")
    except NotLookedUpError:
        return is_bare
    return stated.kind == EMBEDS and (is_bare or stated.pooling is not None)


def _class_names(mapping: dict) -> list[str]:
    return [name for names in mapping.values() for name in _listed(names)]


def _listed(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


NEEDS = {
    "translation": Need("an encoder-decoder", _translates),
    "classification": Need("a ...ForSequenceClassification", _classifies),
    "causal-lm": Need("a decoder with a language-modelling head (...ForCausalLM)", _continues),
    "masked-lm": Need("an encoder with a masked-language-modelling head (...ForMaskedLM)", _fills),
    "similarity": Need(
        "a text encoder without a head (AutoModel) or a sentence-transformers folder", _embeds
    ),
    "image-classification": Need("a ...ForImageClassification", _classifies_images),
    "token-classification": Need("a ...ForTokenClassification", _labels_words),
    "choice": Need("a decoder with a language-modelling head (...ForCausalLM)", _continues),
}
"""Tasks by name."""


@final
@dataclass(frozen=True, eq=False)
class TaskBatch:
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

    def to(self, device: torch.device | str) -> "TaskBatch":
        """Copy the batch to another device."""
        return TaskBatch(
            {name: tensor.to(device) for name, tensor in self.inputs.items()},
            {name: tensor.to(device) for name, tensor in self.labels.items()},
            self.example_R.to(device),
            self.index_E.to(device),
        )

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

        A task implements this, or `output` and `losses_of`, which it combines.
        """
        return self.losses_of(self.output(model, batch), batch)

    def output(self, model: PreTrainedModel, batch: TaskBatch, **more: Any) -> Any:
        """The output of the one forward pass that losses are computed from.

        Args:
            model: the model to run.
            batch: the batch to run it on.
            more: further arguments of its forward, such as `output_hidden_states`.
        """
        raise NotImplementedError

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
