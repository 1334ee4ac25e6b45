"""Wiring: which rows of which linear maps make each head's queries, keys and values.

There is no table of architectures. In one tiny forward, every linear map inside an attention module
is traced to the arguments of the attention function. A row belongs to head h if the gradient of
that head's queries (keys, values) with respect to the row's output is not zero. This finds fused
and interleaved maps as well as separate ones; a norm over all heads shows as rows of several heads.

Projection: the output projection W_O of an attention layer, read and written head by head.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from headcount.core import ModelError
from headcount.tap import (
    Anatomy,
    AttentionLayer,
    Call,
    device_of,
    dispatching,
    evaluating,
    fetch,
    intercepted,
    plain_attention,
    run_tiny,
    tiny_inputs,
    weight_of,
)


@final
@dataclass(frozen=True, eq=False)
class Projection:
    """W_O, with one row for each dimension of the heads' outputs, and its bias."""

    module: nn.Module

    @classmethod
    def of(cls, model: PreTrainedModel, layer: AttentionLayer) -> "Projection":
        """The output projection of one layer."""
        assert layer.output is not None
        return cls(model.get_submodule(layer.output))

    @property
    def device(self) -> torch.device:
        """Device of the projection; a model may be spread over several."""
        return device_of(self.module)

    @property
    def weight_OM(self) -> Float[Tensor, "output hidden"]:
        """A copy of the weights, in float64."""
        weight = weight_of(self.module)
        # Conv1D stores its inputs as rows.
        return (weight if isinstance(self.module, Conv1D) else weight.T).detach().double().clone()

    def write(self, weight_OM: Float[Tensor, "output hidden"]) -> None:
        """Replace the weights."""
        fetch(self.module)
        weight = self.module.weight
        assert isinstance(weight, Tensor)
        turned = weight_OM if isinstance(self.module, Conv1D) else weight_OM.T
        with torch.no_grad():
            weight.copy_(turned)

    def add_bias(self, more_M: Float[Tensor, " hidden"]) -> None:
        """Add to the bias, creating one if the projection has none."""
        fetch(self.module)
        bias, weight = self.module.bias, self.module.weight
        assert isinstance(weight, Tensor)
        if bias is None:
            self.module.bias = nn.Parameter(more_M.to(weight), requires_grad=weight.requires_grad)
        else:
            assert isinstance(bias, Tensor)
            with torch.no_grad():
                bias.add_(more_M.to(bias))


NOBODY = -1
"""Owner of rows that belong to no head."""


@final
@dataclass(frozen=True)
class Wiring:
    """The linear maps that feed the heads of one attention layer."""

    layer: AttentionLayer
    queries: Mapping[str, Int64[Tensor, " query_row"]]
    """The query head that owns each row of a linear map, or `NOBODY`, by path of the map."""
    keys_values: Mapping[str, Int64[Tensor, " key_row"]]
    """The same for key/value heads."""


def wire(
    model: PreTrainedModel, anatomy: Anatomy, inputs: Mapping[str, Tensor] | None = None
) -> list[Wiring]:
    """The wiring of every attention layer, in the order of the anatomy.

    Args:
        model: Model to trace.
        anatomy: Its attention layers.
        inputs: Inputs that these layers were found with; made up if None.

    Raises:
        ModelError: If a layer's maps can't be split by head; the message says why.
    """
    for layer in anatomy.layers:
        if layer.by_own_softmax:
            why = (
                "so it is unknown which of its weights belong to a head. The model can be gated "
                "but not made smaller."
            )
            raise layer.not_ours(type(model).__name__, why)
        projection = model.get_submodule(layer.output) if layer.output is not None else None
        if not isinstance(projection, nn.Linear | Conv1D | None):
            raise ModelError(
                f"Expected a linear map as output projection, got {layer.output}, a "
                f"{type(projection).__name__}. The model can be gated but not made smaller."
            )
    tracer = _Tracer(model, anatomy)
    with (
        evaluating(model),
        torch.enable_grad(),
        dispatching(model, tracer.attend),
        intercepted(tracer.maps, after=tracer.cut),
    ):
        run_tiny(model, tiny_inputs(model) if inputs is None else inputs)
    return [_checked(tracer.found[layer.module], layer) for layer in anatomy.layers]


_Found = dict[str, dict[str, Tensor]]
"""Role (query, key, value) to path of a map to [head, row], True where the head needs the row."""


class _Tracer:
    """Cuts the graph behind every linear map and traces it to the attention function."""

    def __init__(self, model: PreTrainedModel, anatomy: Anatomy) -> None:
        self.paths: dict[nn.Module, list[str]] = {}
        """All paths of every module; a map that layers share has several."""
        for path, module in model.named_modules(remove_duplicate=False):
            self.paths.setdefault(module, []).append(path)
        inside = tuple(f"{layer.module}." for layer in anatomy.layers)
        self.maps = [
            module
            for module, paths in self.paths.items()
            if isinstance(module, nn.Linear | Conv1D)
            and any(path.startswith(inside) for path in paths)
        ]
        self.outputs: dict[nn.Module, Tensor] = {}
        self.found: dict[str, _Found] = {}

    def attend(self, call: Call) -> Tensor:
        path = self.paths[call.module][0]
        inside = {
            name: tensor
            for each, tensor in self.outputs.items()
            for name in self.paths[each]
            if name.startswith(f"{path}.")
        }
        roles = {"query": call.query, "key": call.key, "value": call.value}
        self.found[path] = {role: _needed(tensor, inside) for role, tensor in roles.items()}
        self.outputs.clear()
        with torch.no_grad():
            return plain_attention(call)

    def cut(self, module: nn.Module, output: Tensor) -> Tensor:
        """Cut the graph behind a linear map."""
        self.outputs[module] = output.detach().requires_grad_()
        return self.outputs[module].clone()  # a module may change its output in place


def _needed(role_BHND: Tensor, outputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Which rows of every map each head needs: where the gradient is not zero."""
    if not outputs or not role_BHND.requires_grad:
        return {}
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(role_BHND.shape[2:], generator=generator).to(role_BHND)
    heads = []
    for head in range(role_BHND.shape[1]):
        total = (role_BHND[:, head] * weights).sum()
        gradients = torch.autograd.grad(
            total, list(outputs.values()), retain_graph=True, allow_unused=True
        )
        heads.append(
            [
                touched(gradient, *pair)
                for gradient, *pair in zip(gradients, outputs.values(), strict=True)
            ]
        )
    needed = {
        path: torch.stack(rows)
        for path, rows in zip(outputs, zip(*heads, strict=True), strict=True)
    }
    return {path: rows_HR for path, rows_HR in needed.items() if rows_HR.any()}


def touched(gradient: Tensor | None, output: Tensor) -> Tensor:
    """Which rows of the last axis something depends on, by its gradient; None is none."""
    if gradient is None:
        return torch.zeros(output.shape[-1], dtype=torch.bool)
    return (gradient != 0).flatten(0, -2).any(0).cpu()


def _checked(found: _Found, layer: AttentionLayer) -> Wiring:
    """The owners of all rows, after checking that no row has two and every head has some."""
    for role, maps in found.items():
        if not maps:
            raise ModelError(
                f"No linear map inside {layer.module} makes its {role} states, so its heads can't "
                "be cut out."
            )
        for path, needed_HR in maps.items():
            if (needed_HR.sum(0) > 1).any():
                raise ModelError(
                    f"Rows of {path} feed several heads' {role} states (a norm over all heads, or "
                    "a part that heads share). A smaller map would compute something else, so the "
                    "model can be gated but not made smaller."
                )
    keys_values = {path: _owners(needed) for path, needed in found["key"].items()}
    for path, needed_HR in found["value"].items():
        owners = _owners(needed_HR)
        keys_values[path] = torch.maximum(owners, keys_values.get(path, owners))
    return Wiring(
        layer, {path: _owners(needed) for path, needed in found["query"].items()}, keys_values
    )


def _owners(needed_HR: Tensor) -> Tensor:
    return torch.where(needed_HR.any(0), needed_HR.int().argmax(0), NOBODY)
