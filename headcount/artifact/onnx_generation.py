"""Graphs that generate: ONNX that reads one step and hands keys and values on as a cache.

A causal model is one graph, `decoder.onnx`; an encoder-decoder is two. `encoder.onnx` returns the
keys and values of cross-attention, which stay the same in all steps. `decoder.onnx` takes the
tokens of a step and the cache so far, which has no token in the first step. It returns the logits
of the last token, and the longer cache. The cache of each layer has a shape of its own. A layer
without heads has none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer
from transformers.modeling_outputs import BaseModelOutput

from headcount.artifact.comparing import Inputs
from headcount.artifact.onnx import Graph, write_onnx
from headcount.core import LayerId, ModelError
from headcount.models import Loaded
from headcount.tap import evaluating, tiny_inputs

ENCODER, DECODER = "encoder.onnx", "decoder.onnx"
PAST, PRESENT = "past_key_values", "present"
"""Prefixes of the inputs and the outputs that hold a cache, as in optimum's exports."""

TOKENS, CACHED = 3, 2
"""Numbers of tokens, and of tokens in the cache, in the sample that the exporter runs."""


@final
@dataclass(frozen=True)
class LayerCache:
    """Keys and values of one layer at one site."""

    layer: int
    site: str
    """`decoder` or, for cross-attention, `encoder`; empty for a causal model."""
    num_heads: int
    """Number of key/value heads."""
    head_dim: int
    value_dim: int
    is_dead: bool
    """Whether the layer has lost its heads: a head of zeros takes their place in the graph."""

    def names(self, prefix: str) -> list[str]:
        """Names of keys and values."""
        place = ".".join([prefix, str(self.layer), *([self.site] if self.site else [])])
        return [f"{place}.key", f"{place}.value"]


def export_generation(loaded: Loaded, folder: Path) -> None:
    """Write the graphs of a model that generates text into a folder.

    Raises:
        InputError: If the `onnx` extra is missing.
        ModelError: If the model does not generate text from text, or can't be exported.
    """
    model = loaded.model
    check_generates(model)
    sample = tiny_inputs(model)
    with evaluating(model), torch.no_grad():
        own, cross = _caches(loaded, sample)
        if model.config.is_encoder_decoder:
            _write_encoder(model, cross, sample, folder / ENCODER)
        _write_decoder(model, own, cross, sample, folder / DECODER)


def check_generates(model: PreTrainedModel) -> None:
    """Check that a model reads text and writes text token by token.

    Raises:
        ModelError: If it does not.
    """
    if not model.can_generate() or model.main_input_name != "input_ids":
        raise ModelError(
            "Expected a model that reads text and generates text, which a cache is for, got "
            f"{type(model).__name__}. Export it without --cache."
        )


def _caches(loaded: Loaded, sample: Inputs) -> tuple[list[LayerCache], list[LayerCache]]:
    """The caches of self-attention and of cross-attention, layer by layer.

    Raises:
        ModelError: If the model keeps another kind of cache, or no length can be read from it.
    """
    model, dead = loaded.model, loaded.anatomy.dead
    found = model(**sample, use_cache=True).past_key_values
    if isinstance(found, EncoderDecoderCache):
        caches = [("decoder", found.self_attention_cache), ("encoder", found.cross_attention_cache)]
    else:
        caches = [("", found)]
    sites = {"": "decoder.self", "decoder": "decoder.self", "encoder": "decoder.cross"}
    layers = [
        [
            LayerCache(
                number,
                site,
                *(layer.keys.shape[1], layer.keys.shape[3], layer.values.shape[3]),
                LayerId(sites[site], number) in dead,
            )
            for number, layer in enumerate(_layers_of(model, cache))
        ]
        for site, cache in caches
    ]
    own, cross = layers[0], layers[1] if len(layers) > 1 else []
    if cross and all(layer.is_dead for layer in own):
        raise ModelError(
            f"Expected a {type(model).__name__} with a head in the decoder's self-attention, whose "
            "cache says how many tokens were written, got none. Export it without --cache."
        )
    return own, cross


def _layers_of(model: PreTrainedModel, cache: Any) -> Sequence[Any]:
    layers = list(getattr(cache, "layers", ()))
    if not layers or not all(isinstance(layer, DynamicLayer) for layer in layers):
        raise ModelError(
            f"Expected a cache of keys and values, got another kind from {type(model).__name__}. "
            "Export it without --cache."
        )
    return layers


def _write_encoder(
    model: PreTrainedModel, cross: Sequence[LayerCache], sample: Inputs, path: Path
) -> None:
    inputs = {name: each for name, each in sample.items() if not name.startswith("decoder_")}
    outputs = [name for layer in cross if not layer.is_dead for name in layer.names(PAST)]
    free = {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}
    module = _Encoder(model, [*inputs], cross)
    write_onnx(module, inputs, outputs, [free] * len(inputs), path=path)


def _write_decoder(
    model: PreTrainedModel,
    own: Sequence[LayerCache],
    cross: Sequence[LayerCache],
    sample: Inputs,
    path: Path,
) -> None:
    mask = sample["attention_mask"]
    like = next(model.parameters())
    rows, sources = mask.shape
    inputs = {"attention_mask": torch.ones_like(mask)}
    tokens = sample["decoder_input_ids" if cross else "input_ids"]
    ids = tokens[:, :1].expand(rows, TOKENS).contiguous()
    if cross:
        inputs |= {"decoder_input_ids": ids}
    else:
        inputs = {"input_ids": ids, "attention_mask": mask.new_ones(rows, CACHED + TOKENS)}
    free = [{0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}] * 2
    for layer, length in [(each, CACHED) for each in own] + [(each, sources) for each in cross]:
        if not layer.is_dead:
            shape = rows, layer.num_heads, length
            key, value = layer.names(PAST)
            inputs[key] = like.new_zeros(*shape, layer.head_dim)
            inputs[value] = like.new_zeros(*shape, layer.value_dim)
            free += [{0: torch.export.Dim.AUTO, 2: torch.export.Dim.AUTO}] * 2
    alive = [layer for layer in own if not layer.is_dead]
    outputs = ["logits", *(name for layer in alive for name in layer.names(PRESENT))]
    write_onnx(_Decoder(model, [*inputs], own, cross), inputs, outputs, free, path=path)


@final
class _Encoder(Graph):
    """The encoder, and the keys and values that cross-attention makes of its output."""

    def __init__(
        self, model: PreTrainedModel, names: Sequence[str], cross: Sequence[LayerCache]
    ) -> None:
        super().__init__(model, names)
        self.cross = cross

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Keys and values of every layer that has some."""
        given = self.given(inputs)
        model: Any = self.model
        encoded = model.get_encoder()(**given)
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        start = torch.zeros_like(given["input_ids"][:, :1])  # any token: its own states are unused
        model(
            encoder_outputs=encoded,
            attention_mask=given["attention_mask"],
            decoder_input_ids=start,
            past_key_values=cache,
            use_cache=True,
        )
        return _flat(cache.cross_attention_cache, self.cross)


@final
class _Decoder(Graph):
    """One step: the logits of the last token, and the cache with the tokens of the step."""

    def __init__(
        self,
        model: PreTrainedModel,
        names: Sequence[str],
        own: Sequence[LayerCache],
        cross: Sequence[LayerCache],
    ) -> None:
        super().__init__(model, names)
        self.own, self.cross = own, cross
        self.accepted = signature(model.forward).parameters

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The logits of the last token, then keys and values of every layer that has some."""
        given = self.given(inputs)
        model, mask = self.model, given["attention_mask"]
        options: dict[str, Any] = {"attention_mask": mask, "use_cache": True}
        if self.cross:
            ids = given["decoder_input_ids"]
            alive = next(layer for layer in self.own if not layer.is_dead)
            past = given[alive.names(PAST)[0]].shape[2]
            own = _cache(given, self.own, (ids.shape[0], past))
            cross = _cache(given, self.cross, (mask.shape[0], mask.shape[1]))
            cache: Any = EncoderDecoderCache(own, cross)
            unread = _states_like(model, mask)  # keys and values are in the cache
            options |= {"decoder_input_ids": ids, "encoder_outputs": BaseModelOutput(unread)}
        else:
            ids = given["input_ids"]
            cache = own = _cache(given, self.own, (ids.shape[0], mask.shape[1] - ids.shape[1]))
            options |= {"input_ids": ids}
            if "position_ids" in self.accepted:  # as `generate` makes them
                position = (mask.cumsum(-1) - 1).clamp_min(0)
                options |= {"position_ids": position[:, -ids.shape[1] :]}
        if "logits_to_keep" in self.accepted:
            options |= {"logits_to_keep": 1}
        found = model(**options, past_key_values=cache)
        return found.logits[:, -1], *_flat(own, self.own)


def _states_like(model: PreTrainedModel, mask: Tensor) -> Tensor:
    """Zeros in place of an encoder's output."""
    width = model.config.get_text_config().hidden_size
    return torch.zeros((*mask.shape, width), dtype=model.dtype, device=mask.device)


def _cache(
    given: Mapping[str, Tensor], layers: Sequence[LayerCache], size: tuple[Any, Any]
) -> DynamicCache:
    """A cache that holds the given keys and values, and zeros in layers without heads."""
    cache = DynamicCache()
    like = next(each for name, each in given.items() if name.startswith(PAST))
    for layer in layers:
        its = DynamicLayer()
        if layer.is_dead:
            rows, length = size
            shape = rows, layer.num_heads, length
            its.keys = like.new_zeros(*shape, layer.head_dim)
            its.values = like.new_zeros(*shape, layer.value_dim)
        else:
            its.keys, its.values = (given[name] for name in layer.names(PAST))
        its.dtype, its.device, its.is_initialized = its.keys.dtype, its.keys.device, True
        cache.layers.append(its)
    return cache


def _flat(cache: Any, layers: Sequence[LayerCache]) -> tuple[Tensor, ...]:
    """Keys and values of the layers that have heads."""
    pairs = zip(cache.layers, layers, strict=True)
    return tuple(t for its, layer in pairs if not layer.is_dead for t in (its.keys, its.values))
