"""Anatomy: a model's attention layers, where they are and how their weights can be reached.

Vision: which parts of a model that reads images and text see the images, and which write.

There is no table of architectures. A configuration holds those of its parts by name (CLIP's
`vision_config`, FLAVA's `image_config`), and a part has its own. So a vision tower is found where
it is in the model, whatever is passed.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from inspect import signature
from typing import TypeVar, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
)
from transformers.pytorch_utils import Conv1D

from headcount.core import SITES, Heads, LayerId, ModelError
from headcount.tap.placement import device_of, weight_of


def dead_modules(model: PreTrainedModel) -> set[str]:
    """Paths of the modules with a map of an attention layer that lost all its heads.

    It is empty for a model that is not compact. Parts of a compact model, such as its encoder, have
    a plan for other paths, or none.
    """
    constant = (path for path, module in model.named_modules() if type(module).__name__ == _DEAD)
    return {path[:end] for path in constant for end in range(len(path)) if path[end] == "."}


_DEAD = "ConstantMap"
"""Class of such a map, in our modelling file and in its copy beside a compact model."""


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
    by_own_softmax: bool = False
    """Whether the module computes its weights by a softmax of its own, without the attention
    function of transformers' interface."""
    has_learned_sink: bool = False
    """Whether a logit that belongs to no key takes part of the weight, as in gpt-oss. The
    self-check finds it: the weights of some query add up to less than 1."""

    def not_ours(self, kind: str, why: str) -> ModelError:
        """The error that a model's layer computes its own softmax, and what is therefore lost."""
        return ModelError(
            f"Expected attention through transformers' AttentionInterface, but {self.module} of "
            f"{kind} takes a softmax of its own, {why}"
        )

    @property
    def layer_id(self) -> LayerId:
        """Site and number of the layer."""
        return LayerId(self.site, self.layer)

    def output_weight(self, model: PreTrainedModel) -> Float[Tensor, "head dim hidden"]:
        """W_O split by head: row d of `[head]` is what the head's dimension d adds to outputs.

        Raises:
            ModelError: If no output projection was found.
        """
        if self.output is None:
            raise ModelError(
                f"Expected an output projection after {self.module}, found none: what attention "
                "returns does not go straight into a linear map. If the model has adapters, merge "
                "them (`merge_and_unload()` of PEFT)."
            )
        projection = model.get_submodule(self.output)
        if isinstance(projection, nn.Linear) and not is_packed(projection.weight):
            weight = weight_of(projection).T
        elif isinstance(projection, Conv1D):
            weight = weight_of(projection)  # which has its inputs in rows
        else:
            weight = _weight_of_affine(projection, self.num_heads * self.head_dim, model)
        return weight.detach().unflatten(0, (self.num_heads, self.head_dim))

    def output_root(self, model: PreTrainedModel) -> Float[Tensor, "head dim dim"] | None:
        """R of every head with R R^T = W_O W_O^T: ||x W_O|| = ||x R||, in the head's own size.

        None if no output projection was found.
        """
        if self.output is None:
            return None
        weight_HDM = self.output_weight(model).double()
        product_HDD = weight_HDM @ weight_HDM.transpose(1, 2)
        root_HDD, failed_H = torch.linalg.cholesky_ex(product_HDD)
        if failed_H.any():  # a head whose outputs span fewer dimensions than it has
            squared_HD, vectors_HDD = torch.linalg.eigh(product_HDD)
            root_HDD = vectors_HDD * squared_HD.clamp_min(0).sqrt()[:, None]
        return root_HDD.to(torch.promote_types(model.dtype, torch.float32))


@final
@dataclass(frozen=True)
class Anatomy:
    """The attention layers of a model in call order, and how their weights are computed."""

    layers: tuple[AttentionLayer, ...]
    eager: bool = False
    """Whether the model's own eager function must compute the weights (e.g. attention sinks)."""
    implementation: str | None = None
    """Name of the attention implementation that the model sees inside a tap; None for its own."""
    differences: dict[str, float] = field(default_factory=dict)
    """Largest differences in the self-check. `fused` and `weights`: of the tap's two ways to
    compute attention from a plain softmax in float64, as a share of a head's norm; `outputs`: of
    the tapped model's outputs from the stock model's, as a share of the largest."""
    by_outputs: tuple[str, ...] = ()
    """Paths of modules that the self-check compared by the model's outputs alone, since they take a
    softmax of their own or call a function that can't be run beside the model."""
    unseen: tuple[str, ...] = ()
    """Paths of modules outside the model's lists of layers, such as pooling heads, whose attention
    headcount can't see. Their heads are not among `heads`."""
    not_run: tuple[str, ...] = ()
    """Paths of towers that saw no image or heard no sound. Their heads are not among `heads`."""
    can_block: bool = True
    """Whether scores that are blocked got no weight in the self-check."""
    dead: Mapping[LayerId, str] = field(default_factory=dict)
    """Layers of a compact model that lost all heads, with the paths of their modules. They are not
    among `layers`; the numbers of the other layers are unchanged."""

    def check_saw_images(self, site: str) -> None:
        """Check that heads at a site are not unknown for lack of an image.

        Raises:
            ModelError: If they are; says how to pass one.
        """
        if site == "vision.self" and self.not_run:
            raise ModelError(
                f"Expected a model that was examined with an image, since heads of {site} are "
                f"named, got one that saw text alone: {', '.join(self.not_run)} did not run. Load "
                "it with an image, headcount.load(name, inputs=processor(images=..., text=...)), "
                "or pass anatomy=headcount.examine(model, inputs)."
            )

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


def is_packed(weight: Tensor) -> bool:
    """Whether a weight is quantized: packed in a tensor of another class, or in single bytes."""
    is_plain = type(weight) in (Tensor, nn.Parameter) or hasattr(weight, "full_tensor")
    return not (is_plain and weight.is_floating_point() and weight.element_size() > 1)


def _weight_of_affine(
    projection: nn.Module, width: int, model: PreTrainedModel
) -> Float[Tensor, "width hidden"]:
    """The weight of an affine module of any kind: an adapter around a linear map, a quantized one.

    Row i is what the module makes of the i-th unit vector, less what it makes of 0.
    """
    with torch.no_grad():
        unit = torch.eye(width, device=device_of(projection), dtype=model.dtype)
        return projection(unit) - projection(torch.zeros_like(unit[:1]))


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


_NAMES = ("vision", "image", "video", "backbone")
"""What configurations of vision towers are called in those of whole models."""
_OF_SOUND = ("audio",)
"""The same of towers that hear sound."""


@final
class Parts:
    """The vision towers of a model of images and text, and its language model.

    A model that reads images alone (a Vision Transformer), or text alone, has no towers. One that
    reads images and only writes text (TrOCR) has an encoder and a decoder.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._configs = {
            path: config
            for path, module in model.named_modules()
            if isinstance(config := getattr(module, "config", None), PreTrainedConfig)
        }
        taken = {*signature(model.forward).parameters}
        self.towers = self._towers(model, _NAMES) if "input_ids" in taken else ()
        """Paths of the vision towers."""
        hears = {"input_ids", "input_features"} <= taken
        self.hearing = self._towers(model, _OF_SOUND) if hears else ()
        """Paths of the towers that hear sound beside a text."""

    def _towers(self, model: PreTrainedModel, names: Sequence[str]) -> tuple[str, ...]:
        kinds = {type(each) for each in _inside(model.config, names)} - {type(model.config)}
        found = [path for path, each in self._configs.items() if type(each) in kinds]
        return tuple(
            path for path in found if not any(path.startswith(f"{other}.") for other in found)
        )

    def is_vision(self, path: str) -> bool:
        """Whether a module is one of a vision tower."""
        return any(f"{path}.".startswith(f"{tower}.") for tower in self.towers)

    def is_decoder(self, path: str) -> bool:
        """Whether a module is one of a language model beside a vision tower.

        Its configuration is of models that predict the next token, and not of masked ones. It may
        attend in both directions within images and prompts (PaliGemma, GIT), as an encoder does.
        """
        around = (each for each in self._configs if f"{path}.".startswith(f"{each}."))
        outer = max(around, key=len, default="")  # the model
        kind = type(self._configs[outer])
        is_causal = kind in MODEL_FOR_CAUSAL_LM_MAPPING and kind not in MODEL_FOR_MASKED_LM_MAPPING
        return bool(self.towers) and is_causal


def _inside(
    config: PreTrainedConfig, names: Sequence[str], is_tower: bool = False
) -> Iterator[PreTrainedConfig]:
    """The configurations of towers inside one, by what they are called, at any depth."""
    for name in config.sub_configs:
        part, found = getattr(config, name, None), is_tower or any(each in name for each in names)
        if isinstance(part, PreTrainedConfig):
            if found:
                yield part
            yield from _inside(part, names, found)
