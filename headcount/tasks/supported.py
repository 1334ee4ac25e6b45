"""Which tasks a model can do: those that score the head it was trained with.

A model with another head, such as one that answers questions, has no task. The cosine of mean
states is what a bare encoder and a sentence-transformers model give; it is not the answer of a
model with a head, whose own answer it would ignore.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import final

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

from headcount.core import ModelError
from headcount.models import EMBEDS, NotLookedUpError, SentenceEncoding, reads_pictures
from headcount.tap import evaluating, tiny_inputs


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
    if task not in NEEDS or NEEDS[task].met(model):
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


def _reads_with(name: str) -> Callable[[PreTrainedModel], bool]:
    """Whether a model reads texts with a head of this name."""
    return lambda model: _takes_text(model) and _named(model, name)


def _classifies_images(model: PreTrainedModel) -> bool:
    kinds = ("ForImageClassification", "ForImageClassificationWithTeacher")
    return model.main_input_name == "pixel_values" and _named(model, *kinds)


def _continues(model: PreTrainedModel) -> bool:
    """Whether a model has a next-token head on a body that sees no later token."""
    named = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()
    names = chain.from_iterable((each,) if isinstance(each, str) else each for each in named)
    heads = _named(model, "ForCausalLM", *names)
    config = model.config
    if reads_pictures(model):  # classes of such models are named after what they are made for
        heads = heads or (model.can_generate() and _sees_no_later(model))
    return _takes_text(model) and heads and not config.is_encoder_decoder and not _is_encoder(model)


def _sees_no_later(model: PreTrainedModel) -> bool:
    """Whether the last token of a text changes nothing before it (it does in PaliGemma)."""
    ids_1N = tiny_inputs(model)["input_ids"][:1]
    ids_2N = ids_1N.repeat(2, 1)
    ids_2N[1, -1] = ids_1N[0, 0] if ids_1N[0, 0] != ids_1N[0, -1] else ids_1N[0, 1]
    return same_before_the_last(model, {"input_ids": ids_2N})


def same_before_the_last(model: PreTrainedModel, inputs: Mapping[str, Tensor]) -> bool:
    """Whether two rows that differ in their last token have the same predictions before it."""
    with evaluating(model), torch.inference_mode():
        logits_2NV = getattr(model(**inputs, use_cache=False), "logits", None)
    if logits_2NV is None:
        return False
    first_NV, second_NV = logits_2NV[:, :-1].float()
    apart, largest = (first_NV - second_NV).abs().max(), logits_2NV.abs().max()
    return apart.item() <= 1e-3 * max(1.0, largest.item())


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


def _transcribes(model: PreTrainedModel) -> bool:
    return model.config.model_type == "whisper" and model.can_generate()


NEEDS = {
    "translation": Need("an encoder-decoder", _translates),
    "classification": Need(
        "a ...ForSequenceClassification", _reads_with("ForSequenceClassification")
    ),
    "causal-lm": Need("a decoder with a language-modelling head (...ForCausalLM)", _continues),
    "masked-lm": Need(
        "an encoder with a masked-language-modelling head (...ForMaskedLM)",
        _reads_with("ForMaskedLM"),
    ),
    "similarity": Need(
        "a text encoder without a head (AutoModel) or a sentence-transformers folder", _embeds
    ),
    "search": Need(
        "a text encoder without a head (AutoModel) or a sentence-transformers folder", _embeds
    ),
    "image-classification": Need("a ...ForImageClassification", _classifies_images),
    "token-classification": Need(
        "a ...ForTokenClassification", _reads_with("ForTokenClassification")
    ),
    "transcription": Need("a Whisper (WhisperForConditionalGeneration)", _transcribes),
    "choice": Need("a decoder with a language-modelling head (...ForCausalLM)", _continues),
}
"""Tasks by name."""
