"""Sample inputs: short random batches that a model accepts, for discovery and the self-check."""

import itertools
import math
from collections.abc import Iterator, Mapping
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.utils.generic import ModelOutput

from headcount.core import InputError, ModelError, amount, reason
from headcount.tap.placement import input_device

LENGTHS = (7, 4)
"""Tokens of the two rows (the second is padded); decoder rows are shorter, so that sites differ."""
DECODER_LENGTHS = (5, 3)

CHECKED_LENGTH = 24
"""Tokens of the longest row in the self-check, fewer if a model has fewer positions. Windows,
blocks and numbers of kept keys in small models are smaller than this, so that code under such
conditions runs."""

UNPADDED, UNMASKED = "on a batch without padding", "without a mask"
"""The checks on a batch with a mask that says that there is no padding, and on the same without."""

_CLASSIFIER = "ForSequenceClassification"


ERRORS = (AttributeError, TypeError, ValueError, LookupError, RuntimeError, ArithmeticError)
"""Errors of models that don't run on the inputs that they are given."""

_MAKERS = ("input_ids", "pixel_values", "pixel_values_videos", "input_features", "input_values")
_TEXT = ("input_ids", "attention_mask")


def tiny_inputs(model: PreTrainedModel) -> dict[str, Tensor]:
    """Two short random rows on the model's device; rows of text differ in length.

    Text is padded on the right. Where a configuration does not say which of several forms inputs
    have (images of one or several frames, sound as waves or features, images beside text), the
    first that the model runs on is returned.

    Raises:
        ModelError: if the model's main input is neither text, pixels nor sound, or if it runs on
            nothing that can be made up.
    """
    if (patches := _of_patches(model)) is not None:
        return patches
    name = _main_input(model)
    if name not in _MAKERS:
        raise ModelError(
            f"Expected a model whose main input is one of {', '.join(_MAKERS)}, got a "
            f"{type(model).__name__} with {name!r}, which headcount can't make up. Pass inputs "
            "that it takes to `examine` or `load`."
        )
    candidates = [*_candidates(model)]
    if len(candidates) == 1 and name == "input_ids":
        return candidates[0]
    reasons = []
    for candidate in candidates:
        try:
            with torch.no_grad():
                run_tiny(model, candidate)
        except ERRORS as error:
            reasons.append(reason(error))
        else:
            return candidate
    raise ModelError(refusal(model, reasons[0]))


def refusal(model: PreTrainedModel, reason: str, given: Mapping[str, Tensor] | None = None) -> str:
    """Why a model is refused that does not run on inputs that were given, or made up for it."""
    if given is not None:
        shapes = [f"{name} of {' x '.join(map(str, each.shape))}" for name, each in given.items()]
        return (
            f"Expected inputs that {type(model).__name__} runs on, got {', '.join(shapes)}: "
            f"{reason.rstrip('.')}. Pass what its processor returns."
        )
    return (
        f"Expected a model that runs on two short rows of its main input, got a "
        f"{type(model).__name__}, which does not: {reason}. Pass inputs that it takes to `examine` "
        "or `load`."
    )


def check_given(model: PreTrainedModel, inputs: object) -> None:
    """Check that inputs are tensors by names that a model's forward takes.

    Raises:
        InputError: if they are not; says what the model takes.
    """
    taken, main = signature(model.forward).parameters, _main_input(model)
    advice = f'Pass a mapping such as {{"{main}": ...}}, as the model\'s processor returns it.'
    if not isinstance(inputs, Mapping):
        raise InputError(
            f"Expected inputs by name, since {type(model).__name__} takes {main} and others, got "
            f"one {type(inputs).__name__}. {advice}"
        )
    if not any(name in taken for name in inputs):
        names = ", ".join(map(repr, inputs)) or "none"
        raise InputError(
            f"Expected inputs that {type(model).__name__} takes, such as {main}, got {names}. "
            f"{advice}"
        )
    for name, each in inputs.items():
        if not isinstance(each, Tensor):
            raise InputError(
                f"Expected a tensor for {name!r}, got one {type(each).__name__}. {advice}"
            )


def check_inputs(model: PreTrainedModel) -> dict[str, dict[str, Tensor]]:
    """Batches that differ in their padding, by a description; one batch if there is no padding.

    The first has a row with padding on the right, one with padding on the left and one without.
    The others have no padding: one with a mask that says so, and one without a mask.

    Raises:
        ModelError: if the model's main input is neither text, pixels nor sound features.
    """
    tiny = tiny_inputs(model)
    if not all(name.removeprefix("decoder_") in _TEXT for name in tiny):
        return {"on a random batch": tiny}
    generator = torch.Generator().manual_seed(1)
    length = min(CHECKED_LENGTH, _num_positions(model))
    padded = _padded(model, length, generator)
    plain = {"input_ids": padded["input_ids"][2:]}
    marked = {"attention_mask": torch.ones_like(plain["input_ids"])}
    if model.config.is_encoder_decoder:
        # The decoder's rows are shorter, so that the sides differ
        decoder = _padded(model, length - length // 4, generator)
        padded |= {f"decoder_{name}": tensor for name, tensor in decoder.items()}
        plain["decoder_input_ids"] = decoder["input_ids"][2:]
        marked["decoder_attention_mask"] = torch.ones_like(plain["decoder_input_ids"])
    batches = {"on a padded batch": padded, UNPADDED: plain | marked, UNMASKED: plain}
    return {
        name: {key: tensor.to(input_device(model)) for key, tensor in batch.items()}
        for name, batch in batches.items()
    }


def run_tiny(model: PreTrainedModel, inputs: Mapping[str, Tensor]) -> ModelOutput:
    """The model's output on made-up inputs, or its body's output if its head needs more.

    A sequence classifier with a decoder looks for the ends of sentences in its source and makes the
    decoder's inputs from it, so its sites could not be distinguished by length. On real texts,
    which come without these inputs, it runs completely.
    """
    whole = runs_whole(model) or "decoder_input_ids" not in inputs
    return (model if whole else model.base_model)(**inputs)


def runs_whole(model: PreTrainedModel) -> bool:
    """Whether `run_tiny` also runs the model's head on inputs from `tiny_inputs`."""
    return not (model.config.is_encoder_decoder and _CLASSIFIER in type(model).__name__)


def _rows(
    model: PreTrainedModel, lengths: tuple[int, ...], generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    decodes = model.config.is_encoder_decoder
    # None, which looks for a text model in a model of text and images; False would not
    config = model.config.get_text_config(decoder=decodes or None)
    kinds = ("pad", "bos", "eos", "decoder_start")
    named = (getattr(config, f"{kind}_token_id", None) for kind in kinds)
    special = {each for ids in named for each in (ids if isinstance(ids, list) else [ids])}
    # Ids that both sides know; the two vocabularies of a translation model may differ in size
    sides = [config, *([model.config.get_text_config(encoder=True)] if decodes else [])]
    size = min(_field(each, ("vocab_size",), 100) for each in sides)
    usual = [i for i in range(min(size, 1000)) if i not in special]
    if not usual:
        raise ModelError(
            "Expected a vocabulary with tokens besides those for padding, start and end, to make "
            f"sample inputs from, got {amount(size, 'token')}, all of them special. Check "
            "vocab_size and the special ids in config.json."
        )
    choice = torch.randint(len(usual), (len(lengths), max(lengths)), generator=generator)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    ids = torch.tensor(usual)[choice]
    pad = getattr(config, "pad_token_id", None)
    return torch.where(mask, ids, pad if isinstance(pad, int) and pad >= 0 else 0), mask.long()


def _padded(model: PreTrainedModel, length: int, generator: torch.Generator) -> dict[str, Tensor]:
    """Three rows, padded on the right, on the left and not at all."""
    short = length - length // 3
    ids, mask = _rows(model, (short, short, length), generator)
    left = [tensor[1].roll(length - short) for tensor in (ids, mask)]
    ids[1], mask[1] = left
    return {"input_ids": ids, "attention_mask": mask}


def positions_of(config: PreTrainedConfig) -> int | None:
    """Number of positions that a text model has, as far as its configuration says.

    Where rotary positions are stretched (YaRN and its kind), configurations state the limit before
    or after the stretching: it is the larger of `max_position_embeddings` and of
    `factor * original_max_position_embeddings`.
    """
    stated = getattr(config, "max_position_embeddings", None)
    rotary = getattr(config, "rope_parameters", None) or {}
    kinds = [each for each in rotary.values() if isinstance(each, dict)] or [rotary]
    found = [stated, *map(_stretched, kinds)]
    return max((each for each in found if isinstance(each, int) and each > 0), default=None)


def _stretched(rotary: Mapping[str, Any]) -> int | None:
    """The number of positions that rotary positions are stretched to, if they are."""
    factor, original = rotary.get("factor"), rotary.get("original_max_position_embeddings")
    if isinstance(factor, int | float) and isinstance(original, int):
        return int(factor * original)
    return None


def _num_positions(model: PreTrainedModel) -> int:
    """Number of tokens that a text model can take, at least of those that are checked."""
    found = positions_of(
        model.config.get_text_config(decoder=model.config.is_encoder_decoder or None)
    )
    # RoBERTa's relatives count positions from the padding's row on
    return found - 2 if found is not None and found > 2 + LENGTHS[0] else CHECKED_LENGTH


def _main_input(model: PreTrainedModel) -> str:
    """The name of a model's main input, which some parts of models don't say rightly."""
    taken, name = signature(model.forward).parameters, model.main_input_name
    name = name if isinstance(name, str) else name[0]  # OneFormer has several
    if name in taken or any(each.kind is each.VAR_POSITIONAL for each in taken.values()):
        return name
    return next((each for each in _MAKERS if each in taken), name)


def _candidates(model: PreTrainedModel) -> Iterator[dict[str, Tensor]]:
    """Inputs of the forms that a model may take, the likeliest first."""
    name, taken = _main_input(model), signature(model.forward).parameters
    for main in _forms(model, name):
        decoder = {}
        if model.config.is_encoder_decoder:
            ids, mask = _rows(model, DECODER_LENGTHS, torch.Generator().manual_seed(2))
            decoder = {"decoder_input_ids": ids, "decoder_attention_mask": mask}
        yield _on(model, main | decoder)
    if model.can_generate():  # then text alone is enough
        return
    for other in _MAKERS:
        if other != name and other in taken:
            for main, companion in itertools.product(_forms(model, name), _forms(model, other)):
                yield _on(model, main | companion)


def _on(model: PreTrainedModel, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.to(input_device(model)) for name, tensor in inputs.items()}


def _forms(model: PreTrainedModel, name: str) -> list[dict[str, Tensor]]:
    """Random inputs of one name, in all forms that models take."""
    generator = torch.Generator().manual_seed(0)
    if name == "input_ids":
        ids, mask = _rows(model, LENGTHS, generator)
        return [{"input_ids": ids, "attention_mask": mask}]
    shapes = {
        "pixel_values": _of_pixels,
        "pixel_values_videos": _of_films,
        "input_features": _of_features,
        "input_values": _of_waves,
    }
    return [
        {name: torch.randn(len(LENGTHS), *shape, generator=generator).to(model.dtype)}
        for shape in shapes[name](model.config)
    ]


def _of_patches(model: PreTrainedModel) -> dict[str, Tensor] | None:
    """An image of 4 x 4 patches for models that take patches with their grids (Qwen2-VL).

    They call attention once for every image.
    """
    taken = [*signature(model.forward).parameters]
    if "grid_thw" not in taken:
        return None
    config = model.config
    channels = _field(config, ("in_channels", "num_channels", "in_chans"), 3)
    width = channels * _field(config, ("temporal_patch_size",), 1) * config.patch_size**2
    patches = torch.randn(16, width, generator=torch.Generator().manual_seed(0))
    grids = torch.tensor([[1, 4, 4]])
    return _on(model, {taken[0]: patches.to(model.dtype), "grid_thw": grids})


def _of_pixels(config: PreTrainedConfig) -> list[tuple[int, ...]]:
    """Shapes of images: channels, height and width, with frames in front for films."""
    size = _field(config, ("image_size", "input_size", "img_size", "crop_size"), 64)
    height, width = size if isinstance(size, list | tuple) else (size, size)
    channels = _field(config, ("num_channels", "in_channels", "in_chans"), 3)
    frames = _field(config, ("num_frames",), None)
    one = (channels, height, width)
    return [one] if frames is None else [one, (frames, *one)]


def _of_films(config: PreTrainedConfig) -> list[tuple[int, ...]]:
    """Shapes of films: frames in front of an image."""
    frames = _field(config, ("num_frames", "frames_per_clip"), 4)
    return [(frames, *_of_pixels(config)[0])]


def _of_features(config: PreTrainedConfig) -> list[tuple[int, ...]]:
    """Shapes of sound features: frequencies by time, or time by frequencies."""
    bands = _field(config, ("num_mel_bins", "input_feat_per_channel", "feature_size"), 80)
    positions = _field(config, ("max_source_positions",), None)
    times = [_SHORT_SOUND] if positions is None else [2 * positions, _SHORT_SOUND]
    return [shape for time in times for shape in ((bands, time), (time, bands))]


def _of_waves(config: PreTrainedConfig) -> list[tuple[int, ...]]:
    """Shapes of sound as samples: long enough for a dozen frames, or a picture of frequencies."""
    strides = _field(config, ("conv_stride",), [_SHORT_SOUND])
    length = 12 * math.prod(strides) + _SHORT_SOUND
    bands, longest = _field(config, ("num_mel_bins",), None), _field(config, ("max_length",), None)
    pictures = [] if bands is None or longest is None else [(longest, bands)]
    return [*pictures, (length,), (1, length)]


_SHORT_SOUND = 128
"""Number of frames or samples of sound where a configuration does not say how many there are."""


def _field(config: PreTrainedConfig, names: tuple[str, ...], otherwise: Any) -> Any:
    """The first of some fields of a configuration, or of one inside it; a default if none is."""
    for name in names:
        if (found := getattr(config, name, None)) is not None:
            return found
    inside = (getattr(config, name, None) for name in config.sub_configs)
    found = (_field(each, names, None) for each in inside if isinstance(each, PreTrainedConfig))
    return next((each for each in found if each is not None), otherwise)
