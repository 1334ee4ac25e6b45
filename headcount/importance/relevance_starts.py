"""Starts of relevance: the top-1 logit of every target step, by task.

Classification has one step per example. Language models and translation have one step per predicted
token. Similarity starts at the cosine, half of which belongs to each sentence.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from transformers import PreTrainedModel

from headcount.errors import InputError
from headcount.tasks import (
    CausalLanguageModelling,
    Classification,
    MaskedLanguageModelling,
    Similarity,
    Task,
    TaskBatch,
    Translation,
)
from headcount.tasks.drawn import Drawn
from headcount.tasks.likelihood import IGNORED


@final
@dataclass(frozen=True, eq=False)
class Starts:
    """The numbers that relevance starts at."""

    value_ES: Float[Tensor, "example step"]
    """Numbers from which relevance flows back."""
    is_step_ES: Bool[Tensor, "example step"]
    """Whether each number counts; examples have different numbers of steps."""


Start = Callable[[PreTrainedModel, TaskBatch], Starts]
"""Function that runs a model on a batch and returns the starts of relevance."""


def start_of(task: Task) -> Start:
    """The function that starts relevance for a task.

    Raises:
        InputError: If the kind of task is unknown.
    """
    task = task.whole if isinstance(task, Drawn) else task
    if type(task) not in STARTS:
        known = ", ".join(kind.__name__ for kind in STARTS)
        raise InputError(
            f"Expected a task out of {known}, which define where relevance starts, got "
            f"{type(task).__name__}. Pass a function that runs the model on a batch to "
            "relevance(..., start=...)."
        )
    return STARTS[type(task)](task)


def top_logits(
    logits_ESV: Float[Tensor, "example step class"], is_step_ES: Bool[Tensor, "example step"]
) -> Starts:
    """Starts at the largest logit of every step."""
    return Starts(logits_ESV.max(-1).values, is_step_ES)


def _labelled(model: PreTrainedModel, batch: TaskBatch, **more: bool) -> Starts:
    """Starts at tokens with a label: masked tokens, next tokens, or tokens of a translation."""
    logits_ENV = model(**batch.inputs, **more).logits
    return top_logits(logits_ENV, batch.labels["labels"] != IGNORED)


def _foreseen(model: PreTrainedModel, batch: TaskBatch) -> Starts:
    """The same starts for models with a cache, which is switched off."""
    return _labelled(model, batch, use_cache=False)


def _class(model: PreTrainedModel, batch: TaskBatch) -> Starts:
    logits_EC = model(**batch.inputs).logits
    return top_logits(logits_EC[:, None], torch.ones_like(logits_EC[:, :1], dtype=torch.bool))


def _cosine(task: Similarity) -> Start:
    """Starts at the cosine of each pair; lengths are constants, and each sentence takes half."""

    def start(model: PreTrainedModel, batch: TaskBatch) -> Starts:
        hidden_RNW = model.base_model(**batch.inputs).last_hidden_state
        pooled_RW = task.pooled(hidden_RNW, batch.inputs["attention_mask"])
        length_R = pooled_RW.detach().norm(dim=-1, keepdim=True)
        unit_EPW = (pooled_RW / length_R)[batch.example_R.argsort(stable=True)].unflatten(
            0, (-1, 2)
        )
        halves_E = (unit_EPW * unit_EPW.detach().flip(1)).sum((1, 2)) / 2
        return Starts(halves_E[:, None], torch.ones_like(halves_E[:, None], dtype=torch.bool))

    return start


STARTS: Mapping[type[Task], Callable[..., Start]] = {
    Classification: lambda task: _class,
    CausalLanguageModelling: lambda task: _foreseen,
    MaskedLanguageModelling: lambda task: _labelled,
    Translation: lambda task: _foreseen,
    Similarity: _cosine,
}
