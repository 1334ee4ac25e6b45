"""Sample inputs: short random batches that a model accepts, for discovery and the self-check."""

from collections.abc import Mapping

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

from headcount.core import ModelError

LENGTHS = (7, 4)
"""Tokens of the two rows (the second is padded); decoder rows are shorter, so that sites differ."""
DECODER_LENGTHS = (5, 3)

CHECKED_LENGTH = 24
"""Tokens of the longest row in the self-check, fewer if a model has fewer positions. Windows,
blocks and numbers of kept keys in small models are smaller than this, so that code under such
conditions runs."""

_CLASSIFIER = "ForSequenceClassification"


def tiny_inputs(model: PreTrainedModel) -> dict[str, Tensor]:
    """Two short random rows, the second one padded on the right, on the model's device.

    Raises:
        ModelError: if the model's main input is neither text, pixels nor sound features.
    """
    name = model.main_input_name
    makers = {"input_ids": _text, "pixel_values": _pixels, "input_features": _sound}
    if name not in makers:
        raise ModelError(
            f"Expected a model whose main input is one of {', '.join(makers)}, got a "
            f"{type(model).__name__} with {name!r}, which headcount can't make up."
        )
    generator = torch.Generator().manual_seed(0)
    inputs = makers[name](model, generator)
    if model.config.is_encoder_decoder:
        ids, mask = _rows(model, DECODER_LENGTHS, generator)
        inputs |= {"decoder_input_ids": ids, "decoder_attention_mask": mask}
    return {name: tensor.to(model.device) for name, tensor in inputs.items()}


def check_inputs(model: PreTrainedModel) -> dict[str, dict[str, Tensor]]:
    """Batches that differ in their padding, by a description; one batch if there is no padding.

    The first has a row with padding on the right, one with padding on the left and one without.
    The others have no padding: one with a mask that says so, and one without a mask.

    Raises:
        ModelError: if the model's main input is neither text, pixels nor sound features.
    """
    if model.main_input_name != "input_ids":
        return {"on a random batch": tiny_inputs(model)}
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
    batches = {
        "on a padded batch": padded,
        "on a batch without padding": plain | marked,
        "without a mask": plain,
    }
    return {
        name: {key: tensor.to(model.device) for key, tensor in batch.items()}
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
    # None, which looks for a text model in a model of text and images; False would not
    config = model.config.get_text_config(decoder=model.config.is_encoder_decoder or None)
    special = {
        getattr(config, f"{kind}_token_id", None) for kind in ("pad", "bos", "eos", "decoder_start")
    }
    usual = [i for i in range(min(config.vocab_size, 1000)) if i not in special]
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


def _num_positions(model: PreTrainedModel) -> int:
    """Number of tokens that a text model has positions for, as far as its configuration says."""
    config = model.config.get_text_config(decoder=model.config.is_encoder_decoder or None)
    found = getattr(config, "max_position_embeddings", None)
    # RoBERTa's relatives count positions from the padding's row on
    return found - 2 if isinstance(found, int) and found > 2 + LENGTHS[0] else CHECKED_LENGTH


def _text(model: PreTrainedModel, generator: torch.Generator) -> dict[str, Tensor]:
    ids, mask = _rows(model, LENGTHS, generator)
    return {"input_ids": ids, "attention_mask": mask}


def _pixels(model: PreTrainedModel, generator: torch.Generator) -> dict[str, Tensor]:
    config = model.config
    size = config.image_size
    height, width = (size, size) if isinstance(size, int) else size
    shape = (len(LENGTHS), config.num_channels, height, width)
    return {"pixel_values": torch.randn(shape, generator=generator).to(model.dtype)}


def _sound(model: PreTrainedModel, generator: torch.Generator) -> dict[str, Tensor]:
    config = model.config
    shape = (len(LENGTHS), config.num_mel_bins, 2 * config.max_source_positions)
    return {"input_features": torch.randn(shape, generator=generator).to(model.dtype)}
