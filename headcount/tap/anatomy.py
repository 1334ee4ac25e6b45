"""Anatomy: a model's attention layers, found by the calls they make in one tiny forward pass.

There is no table of architectures. A module is an attention layer when it calls the attention
function, its site follows from what it was called with, and its output projection is the linear map
that receives what the attention function returned.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.pytorch_utils import Conv1D

from headcount.core import SITES, Heads, InputError, LayerId, ModelError
from headcount.tap.attention_interface import dispatching
from headcount.tap.sample_inputs import run_tiny, tiny_inputs


def dead_modules(model: PreTrainedModel) -> set[str]:
    """Paths of the attention modules without heads; empty for a model that is not compact."""
    plan = getattr(model.config, "head_plan", None) or {"layers": {}}
    body = body_path(model)
    return {
        body + layer["module"]
        for site, layers in plan["layers"].items()
        for number, layer in layers.items()
        if not plan["kept"][site][number]
    }


def body_path(model: PreTrainedModel) -> str:
    """Path of the model's body, with a dot at the end; empty if the model is its own body."""
    body = model.base_model
    path = next(path for path, module in model.named_modules() if module is body)
    return f"{path}." if path else ""


@final
@dataclass(frozen=True)
class AttentionLayer:
    """One attention layer: what it is (site, layer) and where it lives in the model."""

    site: str
    layer: int
    module: str
    """Path of the attention module, as in `model.get_submodule`."""
    call: int
    """Number of the module's call in a forward pass: 0, except for shared modules (ALBERT)."""
    num_heads: int
    num_key_value_heads: int
    head_dim: int
    """Size of one head's output, which is that of its values."""
    output: str | None
    """Path of the output projection W_O; None if the output does not go straight into one."""

    @property
    def layer_id(self) -> LayerId:
        """Site and number of the layer."""
        return LayerId(self.site, self.layer)

    def output_weight(self, model: PreTrainedModel) -> Float[Tensor, "head dim hidden"]:
        """W_O split by head: row d of `[head]` is what the head's dimension d adds to outputs."""
        assert self.output is not None
        projection = model.get_submodule(self.output)
        weight = projection.weight
        assert isinstance(weight, Tensor)
        if not isinstance(projection, Conv1D):  # which has its inputs in rows
            weight = weight.T
        return weight.detach().unflatten(0, (self.num_heads, self.head_dim))

    def output_root(self, model: PreTrainedModel) -> Float[Tensor, "head dim dim"] | None:
        """R of every head with R R^T = W_O W_O^T: ||x W_O|| = ||x R||, in the head's own size.

        None if no output projection was found.
        """
        if self.output is None:
            return None
        weight_HDM = self.output_weight(model).double()
        squared_HD, vectors_HDD = torch.linalg.eigh(weight_HDM @ weight_HDM.transpose(1, 2))
        root_HDD = vectors_HDD * squared_HD.clamp_min(0).sqrt()[:, None]
        return root_HDD.to(torch.promote_types(model.dtype, torch.float32))


@final
@dataclass(frozen=True)
class Anatomy:
    """The attention layers of a model in call order, and how their weights are computed."""

    layers: tuple[AttentionLayer, ...]
    eager: bool = False
    """Whether the model's own eager function must compute the weights (e.g. attention sinks)."""
    differences: dict[str, float] = field(default_factory=dict)
    """Largest difference from the stock model in the self-check, by what was compared."""
    dead: Mapping[LayerId, str] = field(default_factory=dict)
    """Layers of a compact model that lost all heads, with the paths of their modules. They are not
    among `layers`; the numbers of the other layers are unchanged."""

    @property
    def heads(self) -> Heads:
        """The grid of the model's heads; dead layers have 0."""
        counts: dict[str, dict[int, int]] = {}
        for site, number in self.dead:
            counts.setdefault(site, {})[number] = 0
        for layer in self.layers:
            counts.setdefault(layer.site, {})[layer.layer] = layer.num_heads
        in_order = {site: dict(sorted(counts[site].items())) for site in SITES if site in counts}
        return Heads({site: tuple(each.values()) for site, each in in_order.items()})

    def by_module(self) -> dict[str, list[AttentionLayer]]:
        """The layers that each module computes, in the order of its calls."""
        layers: dict[str, list[AttentionLayer]] = {}
        for layer in self.layers:
            layers.setdefault(layer.module, []).append(layer)
        return layers


_Called = TypeVar("_Called")


@final
class CallOrder:
    """Counts the calls of modules in a forward pass, which distinguish what a module does in each.

    Args:
        model: the model; a forward pass of it, or of its body alone, restarts the count.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._wholes = {model, model.base_model}
        self._calls: dict[nn.Module, int] = {}

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Inside, forward passes restart the count."""
        with ExitStack() as stack:
            for whole in self._wholes:
                handle = whole.register_forward_pre_hook(lambda *_: self._calls.clear())
                stack.callback(handle.remove)
            yield

    def next(self, module: nn.Module, by_call: Sequence[_Called]) -> _Called:
        """The entry for a module's next call, of the entries for its calls in a forward pass."""
        call = self._calls.get(module, 0)
        self._calls[module] = call + 1
        return by_call[call % len(by_call)]


def discover(model: PreTrainedModel) -> Anatomy:
    """Run one tiny forward pass and record every call of the attention function.

    Raises:
        ModelError: if the model never calls it, so that its attention can't be seen or gated, or if
            it does not run on made-up inputs.
    """
    recorder = _Recorder(model)
    with torch.inference_mode(), dispatching(model, recorder.attend), recorder.projections():
        try:
            run_tiny(model, tiny_inputs(model))
        except InputError:
            raise  # it already says so
        except (AttributeError, TypeError, ValueError, LookupError, RuntimeError) as error:
            why = next(iter(str(error).splitlines()), type(error).__name__)
            raise ModelError(
                "Expected a model that runs on two short rows of its main input, got a "
                f"{type(model).__name__}, which does not: {why}"
            ) from error
    if not recorder.calls:
        raise ModelError(
            f"{type(model).__name__} has no attention site that headcount can see. Expected a "
            "model whose attention goes through transformers' AttentionInterface, but this one "
            "never called it. Heads of such an architecture can't be measured or gated."
        )
    # An audio classifier with Whisper's encoder has a configuration that claims a decoder
    has_sides = len({call.num_queries for call in recorder.calls}) > 1
    encoder_decoder = model.config.is_encoder_decoder and has_sides
    layers: list[AttentionLayer] = []
    hollow, dead = dead_modules(model), {}
    for call in recorder.calls:
        site = _site(call, encoder_decoder, recorder.calls[-1].num_queries)
        number = sum(each == site for each, _ in [*dead, *(at.layer_id for at in layers)])
        if call.module in hollow:
            dead[LayerId(site, number)] = call.module
            continue
        occurrence = sum(layer.module == call.module for layer in layers)
        layers.append(
            AttentionLayer(
                site,
                number,
                call.module,
                occurrence,
                call.num_heads,
                call.num_key_value_heads,
                call.head_dim,
                call.output,
            )
        )
    return Anatomy(tuple(layers), dead=dead)


@final
@dataclass(frozen=True)
class _Call:
    module: str
    num_queries: int
    num_keys: int
    num_heads: int
    num_key_value_heads: int
    head_dim: int
    is_causal: bool
    output: str | None = None


class _Recorder:
    """Records the attention calls of a forward pass, and the linear map each output goes into."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.paths = {module: path for path, module in model.named_modules()}
        self.calls: list[_Call] = []
        self.returned: Tensor | None = None

    def attend(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        **kwargs: Any,
    ) -> tuple[Tensor, None]:
        self.calls.append(
            _Call(
                self.paths[module],
                query.shape[2],
                key.shape[2],
                query.shape[1],
                key.shape[1],
                value.shape[3],
                _is_causal(mask),
            )
        )
        # Only shapes and order matter here, not numbers; sdpa has no soft capping.
        kwargs = {name: kwargs[name] for name in ("scaling", "position_bias") if name in kwargs}
        output, _ = sdpa_attention_forward(
            module, query, key, value, mask, is_causal=False, **kwargs
        )
        self.returned = output
        return output, None

    @contextmanager
    def projections(self) -> Iterator[None]:
        handle = nn.modules.module.register_module_forward_pre_hook(self._before_module)
        try:
            yield
        finally:
            handle.remove()

    def _before_module(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        linear = isinstance(module, nn.Linear | Conv1D)
        if self.returned is None or not linear or not args or not isinstance(args[0], Tensor):
            return
        given, returned = args[0], self.returned
        if given.data_ptr() == returned.data_ptr() and given.numel() == returned.numel():
            self.calls[-1] = replace(self.calls[-1], output=self.paths[module])
        self.returned = None


def _is_causal(mask: Tensor | None) -> bool:
    if mask is None or mask.shape[-1] != mask.shape[-2]:
        return False
    seen = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
    return not seen.triu(1).any()


def _site(call: _Call, encoder_decoder: bool, num_decoder_queries: int) -> str:
    if call.num_queries != call.num_keys:
        return "decoder.cross"
    if encoder_decoder:  # the last call of a forward pass is the decoder's
        return "decoder.self" if call.num_queries == num_decoder_queries else "encoder.self"
    return "decoder.self" if call.is_causal else "encoder.self"
