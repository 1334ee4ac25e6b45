"""Inputs for model types that need more than headcount makes up: `examine(model, inputs)`."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

ROWS, TOKENS, FRAMES = 2, 7, 64
Inputs = dict[str, Tensor]


def inputs_of(model: Any) -> Inputs | None:
    """Random inputs of a model's type; None for types that headcount makes inputs for."""
    maker = MAKERS.get(model.config.model_type)
    torch.manual_seed(1)
    return None if maker is None else maker(model.config)


def _text(config: Any) -> Inputs:
    return {
        "input_ids": torch.randint(6, config.vocab_size, (ROWS, TOKENS)),
        "attention_mask": torch.ones(ROWS, TOKENS, dtype=torch.long),
    }


def _text_in_boxes(config: Any) -> Inputs:
    return _text(config) | {"bbox": torch.rand(ROWS, TOKENS, 8)}


def _text_and_regions(config: Any) -> Inputs:
    seen = {"visual_feats": torch.randn(ROWS, 5, config.visual_feat_dim)}
    return _text(config) | seen | {"visual_pos": torch.rand(ROWS, 5, config.visual_pos_dim)}


def _series(config: Any) -> Inputs:
    channels = getattr(config, "num_input_channels", None)
    length = getattr(config, "context_length", FRAMES)
    return {"past_values": torch.randn(ROWS, length, *([channels] if channels else []))}


def _forecast(config: Any) -> Inputs:
    length = config.context_length
    padding = torch.zeros(ROWS, length, dtype=torch.long)
    freq = torch.zeros(ROWS, 1, dtype=torch.long)
    return {"past_values": torch.randn(ROWS, length), "past_values_padding": padding, "freq": freq}


def _trajectory(config: Any) -> Inputs:
    return {
        "states": torch.randn(ROWS, TOKENS, config.state_dim),
        "actions": torch.randn(ROWS, TOKENS, config.act_dim),
        "rewards": torch.randn(ROWS, TOKENS, 1),
        "returns_to_go": torch.randn(ROWS, TOKENS, 1),
        "timesteps": torch.arange(TOKENS).repeat(ROWS, 1),
        "attention_mask": torch.ones(ROWS, TOKENS, dtype=torch.long),
    }


def _patches(config: Any) -> Inputs:
    """Images of 3 x 4 patches, one after the other."""
    vision = getattr(config, "vision_config", config)
    width = vision.num_channels * vision.patch_size**2
    pixels = {
        "pixel_values": torch.randn(ROWS, 12, width),
        "pixel_attention_mask": torch.ones(ROWS, 12, dtype=torch.long),
        "spatial_shapes": torch.tensor([[3, 4]] * ROWS),
    }
    text = {"input_ids": _text(config.text_config)["input_ids"]} if vision is not config else {}
    return pixels | text


def _sound(config: Any) -> Inputs:
    bands = config.num_mel_bins
    length = 2 * getattr(config, "max_source_positions", FRAMES // 2)
    length = 2 * getattr(config, "n_window", length // 2)
    mask = torch.ones(ROWS, length, dtype=torch.long)
    return {"input_features": torch.randn(ROWS, bands, length), "input_features_mask": mask}


def _stacked_sound(config: Any) -> Inputs:
    encoder = getattr(config, "encoder_config", config)
    return {"input_features": torch.randn(ROWS, FRAMES, 4 * encoder.num_mel_bins)}


def _frames_of_80(config: Any) -> Inputs:
    wave = {"input_values": torch.randn(ROWS, 80 * FRAMES)}
    ids = torch.randint(6, config.vocab_size, (ROWS, 5))
    return wave | {"decoder_input_ids": ids}


def _queries(config: Any) -> Inputs:
    return {
        "query_embeds": torch.randn(ROWS, 5, config.hidden_size),
        "encoder_hidden_states": torch.randn(ROWS, TOKENS, config.encoder_hidden_size),
    }


MAKERS: Mapping[str, Callable[[Any], Inputs]] = {
    "bros": _text_in_boxes,
    "lxmert": _text_and_regions,
    "patchtst": _series,
    "patchtsmixer": _series,
    "timesfm": _forecast,
    "decision_transformer": _trajectory,
    "siglip2": _patches,
    "siglip2_vision_model": _patches,
    "audioflamingo3_encoder": _sound,
    "fun_asr_nano_encoder": _sound,
    "qwen3_asr_encoder": _sound,
    "granite_speech5_encoder": _stacked_sound,
    "granite_speech5_ctc": _stacked_sound,
    "moonshine_streaming": _frames_of_80,
    "blip_2_qformer": _queries,
}
"""What makes the inputs of a type."""
