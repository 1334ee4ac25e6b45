"""ONNX: a model's forward as a graph, graphs that generate, and both in ONNX Runtime.

The graph of a forward is that of a batch, with dynamic axes for rows and tokens. It holds the
shapes of every layer, so layers may keep different numbers of heads.

Graphs that generate read one step and hand keys and values on as a cache. A causal model is one
graph, `decoder.onnx`; an encoder-decoder is two. `encoder.onnx` returns the keys and values of
cross-attention, which stay the same in all steps. `decoder.onnx` takes the tokens of a step and the
cache so far, which has no token in the first step. It returns the logits of the last token, and the
longer cache. The cache of each layer has a shape of its own. A layer without heads has none.

Both kinds of graphs are in this file, since they share the exporter, its axes and its runtime.
"""

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor, nn
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer
from transformers.modeling_outputs import BaseModelOutput

from headcount.artifact.comparing import Inputs, Run
from headcount.core import InputError, LayerId, ModelError
from headcount.models import Loaded
from headcount.tap import evaluating, outputs, run_tiny, runs_whole, tiny_inputs


def export_onnx(model: PreTrainedModel, inputs: Inputs, path: Path) -> None:
    """Write the model's forward as ONNX.

    Args:
        model: Model to export.
        inputs: Batch of two rows or more; its sizes stay dynamic.
        path: File to write; large weights are written beside it.

    Raises:
        InputError: If the `onnx` extra is missing.
        ModelError: If the model can't be exported; the message says why.
    """
    _runtime()
    if not runs_whole(model):
        raise ModelError(
            f"Expected a model whose forward uses its inputs unchanged, but {type(model).__name__} "
            "makes decoder inputs from its source and searches it for ends of sentences, which "
            "can't be exported. Export the model without its head."
        )
    names = list(inputs)
    dynamic = tuple(_axes(name, tensor) for name, tensor in inputs.items())
    found = _output_names(model, inputs)
    with evaluating(model):
        write_onnx(_Forward(model, names), inputs, found, dynamic, path=path)


def write_onnx(
    module: nn.Module,
    inputs: Inputs,
    outputs: Sequence[str],
    dynamic: Sequence[Mapping[int, Any]],
    *,
    path: Path,
) -> None:
    """Write a module as ONNX.

    Args:
        module: Module whose forward takes the inputs in their order; its part `model` is exported.
        inputs: Sample of the inputs by name.
        outputs: Names of the outputs.
        dynamic: Axes of each input whose sizes are free.
        path: File to write; large weights are written beside it.

    Raises:
        InputError: If the `onnx` extra is missing.
        ModelError: If the module can't be exported; the message says why.
    """
    _runtime()
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with torch.no_grad(), quiet():
            torch.onnx.export(
                module,
                tuple(inputs.values()),
                path,
                input_names=list(inputs),
                output_names=list(outputs),
                dynamic_shapes=(tuple(dynamic),),
                dynamo=True,
                verbose=False,
            )
    except (RuntimeError, torch.onnx.errors.OnnxExporterError) as error:
        name = type(module.model).__name__
        raise ModelError(
            f"{name} could not be exported to ONNX: {str(error).splitlines()[0]}"
        ) from error


def export_program(model: PreTrainedModel, inputs: Inputs, path: Path) -> None:
    """Write the model's forward as a program of torch.export.

    Args:
        model: Model to export.
        inputs: Batch of two rows or more; its sizes stay dynamic.
        path: File to write.

    Raises:
        ModelError: If the model can't be exported; the message says why.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    dynamic = tuple(_axes(name, tensor) for name, tensor in inputs.items())
    try:
        with evaluating(model), torch.no_grad(), quiet():
            module = _Forward(model, list(inputs))
            made = torch.export.export(
                module, tuple(inputs.values()), dynamic_shapes=(dynamic,), strict=False
            )
            torch.export.save(made, path)
    except (RuntimeError, ValueError) as error:  # of the tracer, and of its constraints
        raise ModelError(
            f"{type(model).__name__} could not be exported by torch.export: "
            f"{str(error).splitlines()[0]}"
        ) from error


def program_runner(path: Path, inputs: Inputs) -> Run:
    """A runner for a program of torch.export.

    Args:
        path: The file.
        inputs: Inputs that it takes, in their order.
    """
    program, names = torch.export.load(path).module(), list(inputs)
    return lambda sample: list(program(*(sample.batch[name] for name in names)))


def session(path: Path, threads: int = 0) -> Any:
    """An ONNX file in ONNX Runtime on the CPU.

    Args:
        path: The file.
        threads: Number of threads; 0 leaves it to ONNX Runtime.

    Raises:
        InputError: If the `onnx` extra is missing.
        ModelError: If ONNX Runtime can't load the file; the message says why.
    """
    runtime = _runtime()
    with _reported():
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        return runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def onnx_runner(path: Path) -> Run:
    """A runner for an ONNX file in ONNX Runtime on the CPU.

    Raises:
        InputError: If the `onnx` extra is missing.
        ModelError: If ONNX Runtime can't load the file or run a batch; the message says why.
    """
    loaded = session(path)
    return lambda sample: [*run_session(loaded, sample.batch).values()]


def run_session(loaded: Any, given: Mapping[str, Tensor]) -> Inputs:
    """The outputs of a session by name; it takes those of the given inputs that it knows.

    Raises:
        ModelError: If ONNX Runtime can't run them; the message says why.
    """
    taken = {each.name for each in loaded.get_inputs()}
    names = [each.name for each in loaded.get_outputs()]
    feed = {name: each.cpu().numpy() for name, each in given.items() if name in taken}
    with _reported():
        return dict(zip(names, map(torch.from_numpy, loaded.run(None, feed)), strict=True))


class _Graph(nn.Module):
    """A function of a model and of positional inputs, which have names."""

    def __init__(self, model: PreTrainedModel, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def given(self, inputs: Sequence[Tensor]) -> Inputs:
        """The inputs by their names."""
        return dict(zip(self.names, inputs, strict=True))


@final
class _Forward(_Graph):
    """The model as a function of positional inputs that returns a tuple of tensors."""

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The outputs in the order of `outputs`."""
        return tuple(outputs(run_tiny(self.model, self.given(inputs))))


def _axes(name: str, tensor: Tensor) -> dict[int, Any]:
    """The dynamic axes of an input: rows and tokens, but not pixels or sound features."""
    return dict.fromkeys((0,) if tensor.is_floating_point() else (0, 1), torch.export.Dim.DYNAMIC)


def _output_names(model: PreTrainedModel, inputs: Inputs) -> list[str]:
    """Names of the outputs in transformers."""
    with evaluating(model), torch.inference_mode():
        found = run_tiny(model, inputs)
    shown = {id(each) for each in outputs(found)}
    return [str(name) for name, value in found.items() if id(value) in shown]


@contextmanager
def _reported() -> Iterator[None]:
    """Raise ONNX Runtime's exceptions, which share no class but Exception, as a `ModelError`."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith("onnxruntime"):
            raise
        raise ModelError(f"ONNX Runtime can't run the export: {error}") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the exporter's long log."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(level)


def _runtime() -> Any:
    try:
        import onnx  # noqa: F401
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise InputError(
            f"ONNX export needs extra packages: pip install 'headcount[onnx]' ({error})"
        ) from error
    return onnxruntime


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
class _Encoder(_Graph):
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
class _Decoder(_Graph):
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
