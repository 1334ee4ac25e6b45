"""Placement: where the layers of a model run, and where the numbers of its weights are.

A model may be spread over devices (`device_map`), and weights may wait in the CPU's memory or on
disk until their layer runs. Hooks of accelerate do this: they move what a layer is given to the
layer's device, and hold the numbers of weights that are away. What gives a model inputs asks for
its `input_device`, and what reads weights reads `weights_of` a module. Weights of which each
process has a part are put together there, by all processes at once.

In tensor parallelism each process has some heads of every layer. transformers splits the
projections (`tp_plan`): process r of n computes heads rH/n to (r+1)H/n of a layer's H, and the
output projections add up what all of them make. Where heads are looked at, every process gathers
the queries, keys and values of all heads and computes all of the layer's attention, so that numbers
are those of one process, under the same names, and none has to be collected later. Where heads are
only gated, each process gates its own. Gradients cross both ways: that of a part is the part of the
gradient, and that of the whole is put together of all parts.
"""

from collections.abc import Collection, Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import fields, is_dataclass, replace
from typing import Any, Generic, Protocol, TypeVar, final, runtime_checkable
from weakref import finalize

import torch
from accelerate.hooks import remove_hook_from_module
from torch import Tensor, distributed, nn
from transformers import PreTrainedModel

from headcount.core import ModelError, amount


def input_device(model: PreTrainedModel) -> torch.device:
    """The device of a model's inputs: that of its embeddings, or where the model itself runs."""
    with suppress(NotImplementedError, AttributeError):  # models whose inputs have no embeddings
        embeddings = model.get_input_embeddings()
        if isinstance(embeddings, nn.Module) and (found := _hooked_device(embeddings)) is not None:
            return found
    return _hooked_device(model) or model.device


@runtime_checkable
class Movable(Protocol):
    """Something of tensors that can be copied to another device."""

    def to(self, device: torch.device) -> Any:
        """Copy it."""
        ...


_Moved = TypeVar("_Moved", bound=Movable)


@final
class OnDevices(Generic[_Moved]):
    """A batch, with a copy on each device on which a layer is measured.

    Args:
        batch: the batch, wherever it is.
    """

    def __init__(self, batch: _Moved) -> None:
        self._batch, self._copies = batch, dict[torch.device, _Moved]()

    def on(self, device: torch.device) -> _Moved:
        """The batch on a device."""
        if device not in self._copies:
            self._copies[device] = self._batch.to(device)
        return self._copies[device]


def moved(facts: Any, device: torch.device) -> Any:
    """Facts on a device: a tensor, or a tuple or dataclass with some; all else stays as it is."""
    if isinstance(facts, Tensor):
        return facts.to(device)
    if isinstance(facts, tuple):
        return tuple(moved(each, device) for each in facts)
    if is_dataclass(facts) and not isinstance(facts, type):
        names = [field.name for field in fields(facts) if field.init]
        return replace(facts, **{name: moved(getattr(facts, name), device) for name in names})
    return facts


def device_of(module: nn.Module) -> torch.device:
    """The device on which a module with weights runs."""
    return _hooked_device(module) or next(module.parameters()).device


def is_spread(model: nn.Module) -> bool:
    """Whether accelerate moves the model's inputs or weights between devices, memory and disk."""
    return any(_hooks(module) for module in model.modules())


def weights_of(module: nn.Module) -> dict[str, Tensor]:
    """A module's own parameters and buffers by name, also those that accelerate holds for it."""
    return {name: _with_numbers(module, name, each) for name, each in own_tensors(module).items()}


def weight_of(module: nn.Module, name: str = "weight") -> Any:
    """One attribute of a module, as `weights_of` reads it; it may be computed from others."""
    found = getattr(module, name, None)
    return _with_numbers(module, name, found) if isinstance(found, Tensor) else found


def own_tensors(module: nn.Module) -> dict[str, Tensor]:
    """A module's own parameters and buffers by name, as they are; numbers may be away."""
    own = (*module._parameters.items(), *module._buffers.items())
    return {name: each for name, each in own if each is not None}


def named_weights(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """A model's parameters by name, each once as `named_parameters` lists them, with numbers."""
    for name, module, parameter in _own_parameters(model):
        yield name, _with_numbers(module, name.rpartition(".")[2], parameter)


def _own_parameters(model: nn.Module) -> Iterator[tuple[str, nn.Module, nn.Parameter]]:
    """A model's parameters, each once, with their modules; numbers may be away.

    Weights that are away have no memory in common, so the model's class says which are one.
    """
    every = dict(model.named_parameters(remove_duplicate=False))
    modules, seen = dict(model.named_modules(remove_duplicate=False)), set[object]()
    for name, parameter in every.items():
        holder = holder_of(model, name, parameter)
        if (key := holder if isinstance(holder, str) else id(holder)) not in seen:
            seen.add(key)
            yield name, modules[name.rpartition(".")[0]], parameter


def holder_of(model: nn.Module, name: str, parameter: nn.Parameter) -> nn.Parameter | str:
    """The parameter that has the numbers for a name, or the name by which they are held.

    It is the same for all names of one parameter.
    """
    if not parameter.is_meta:
        return parameter
    source = getattr(model, "all_tied_weights_keys", {}).get(name, name)
    with suppress(AttributeError):
        if not (tied := model.get_parameter(source)).is_meta:
            return tied
    return source


def copied(model: PreTrainedModel, changing: Collection[str] | None = None) -> PreTrainedModel:
    """A copy of a model; weights that accelerate holds are held once for both.

    Args:
        model: the model.
        changing: paths of the modules whose weights will change; all others are held once for
            both. None copies all.
    """
    maps = (_held(hook) for module in model.modules() for hook in _hooks(module))
    shared = {id(each): each for each in maps if each is not None}
    once = dict[int, nn.Parameter]()
    if changing is not None:
        own = {id(p) for path in changing for p in model.get_submodule(path).parameters()}
        once = {id(each): each for each in model.parameters() if id(each) not in own}
    copy = deepcopy(model, shared | once)
    if shared:
        finalize(copy, lambda source: None, model)  # whose folder of weights goes with it
    return copy


def fetch(module: nn.Module) -> None:
    """Hold a module's own weights in memory from now on, if accelerate fetches them for it."""
    if not any(each.is_meta for each in own_tensors(module).values()):
        return
    numbers, device = weights_of(module), device_of(module)
    trained = {name for name, each in module.named_parameters(recurse=False) if each.requires_grad}
    remove_hook_from_module(module)
    for name, each in numbers.items():
        if name in module._parameters:
            setattr(module, name, nn.Parameter(each.to(device), requires_grad=name in trained))
        else:
            module._buffers[name] = each.to(device)


def weight_away(model: nn.Module, *, lost: bool = False) -> str | None:
    """Name of the first weight that is on the meta device; None if there is none.

    Args:
        model: the model.
        lost: whether to pass over those that accelerate holds.
    """
    for path, module in model.named_modules():
        if not lost or not any(_held(hook) is not None for hook in _hooks(module)):
            for name, each in own_tensors(module).items():
                if each.is_meta:
                    return f"{path}.{name}".removeprefix(".")
    return None


def _with_numbers(module: nn.Module, name: str, tensor: Tensor) -> Tensor:
    """The tensor, whole, or what accelerate holds in its place."""
    if not tensor.is_meta:
        return _whole_numbers(tensor)
    held = (_held(hook) for hook in _hooks(module))
    numbers = next((each[name] for each in held if each is not None), tensor)
    return numbers.to(tensor.dtype)


def _held(hook: Any) -> Any:
    return getattr(hook, "weights_map", None)


def _hooks(module: nn.Module) -> tuple[Any, ...]:
    """Accelerate's hooks on a module."""
    hook = getattr(module, "_hf_hook", None)
    return tuple(getattr(hook, "hooks", () if hook is None else (hook,)))


def _hooked_device(module: nn.Module) -> torch.device | None:
    """The device on which accelerate runs a module, or the first part of it; None without hooks."""
    devices = (
        getattr(hook, "execution_device", None)
        for each in module.modules()
        for hook in _hooks(each)
    )
    return next((torch.device(each) for each in devices if each is not None), None)


@final
class _HeadGroup:
    """The processes that have the heads of a model's layers, each an equal part, in order.

    Args:
        group: torch's group of the processes.
    """

    def __init__(self, group: distributed.ProcessGroup) -> None:
        self._group = group
        self.rank, self.size = distributed.get_rank(group), distributed.get_world_size(group)

    def all(self, part: Tensor, dim: int) -> Tensor:
        """The whole of which each process has a part, along a dimension."""
        return _Whole.apply(part, dim, self)  # type: ignore[no-any-return]

    def own(self, whole: Tensor, dim: int) -> Tensor:
        """The part of this process, along a dimension, of what all of them have."""
        return _Part.apply(whole, dim, self)  # type: ignore[no-any-return]

    def gathered(self, part: Tensor, dim: int) -> Tensor:
        """`all`, without a gradient."""
        part = part.contiguous()
        parts = [torch.empty_like(part) for _ in range(self.size)]
        distributed.all_gather(parts, part, group=self._group)
        return torch.cat(parts, dim)

    def cut(self, whole: Tensor, dim: int) -> Tensor:
        """`own`, without a gradient."""
        return whole.chunk(self.size, dim)[self.rank]


class _Whole(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor, dim: int, group: _HeadGroup) -> Tensor:
        ctx.place = dim, group
        return group.gathered(part, dim)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        dim, group = ctx.place
        return group.cut(grads[0], dim), None, None


class _Part(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, whole: Tensor, dim: int, group: _HeadGroup) -> Tensor:
        ctx.place = dim, group
        return group.cut(whole, dim).clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        dim, group = ctx.place
        return group.gathered(grads[0], dim), None, None


def head_group(model: PreTrainedModel) -> _HeadGroup | None:
    """The processes that transformers split a model's heads over; None if it is whole.

    Raises:
        ModelError: if it was split in another way as well, or its heads can't be shared equally.
    """
    mesh = getattr(model, "_device_mesh", None)
    if mesh is None or mesh.size() < 2:
        return None
    size, name = getattr(model, "_tp_size", None), type(model).__name__
    if size != mesh.size():
        raise ModelError(
            f"Expected a {name} whose heads alone are split over processes (tensor parallelism), "
            f"got one that is split over a mesh of {mesh.size()}, of which {size} share the heads. "
            "Pass tp_size alone, or load it with device='tp:N', which makes a copy of the model "
            "for every N processes."
        )
    return _HeadGroup(mesh.get_group() if mesh.ndim == 1 else mesh.get_group("tp"))


def check_divides(config: Any, size: int) -> None:
    """Check that each of some processes gets as many heads, and whole ones.

    Args:
        config: the model's configuration.
        size: the number of processes.

    Raises:
        ModelError: if not; names the number of heads.
    """
    text = config.get_text_config()
    for name in ("num_attention_heads", "num_key_value_heads"):
        heads = getattr(text, name, None)
        if isinstance(heads, int) and heads % size:
            what = name.removeprefix("num_").replace("_", " ").replace("key value", "key/value")
            raise ModelError(
                f"Expected {what} that {amount(size, 'process')} can share equally, got {heads}. "
                "Start a number of processes that divides it."
            )


def check_not_split(model: PreTrainedModel, what: str) -> None:
    """Check that a model is not split over processes, for something that needs it whole.

    Raises:
        ModelError: if it is.
    """
    if head_group(model) is not None:
        raise ModelError(
            f"Expected a {type(model).__name__} that is whole in this process for {what}, got one "
            "whose heads are split over several (tensor parallelism). Load it on one device, or "
            "with device='auto'."
        )


def _whole_numbers(tensor: Tensor) -> Tensor:
    """The numbers of a weight of which each process has a part; all processes must ask together."""
    whole = getattr(tensor, "full_tensor", None)  # to import DTensor takes time
    return tensor if whole is None else whole()
