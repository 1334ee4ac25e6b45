"""Pretended devices: tensors labelled with devices that the machine lacks, which must not mix.

Inside the mode `tensor.device` is the label, `to(...)` sets it, and an operation on tensors with
two labels raises an error, as torch does on a machine with GPUs. All numbers stay in main memory.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from accelerate import dispatch_model
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

CPU, ONE, OTHER = (torch.device(name) for name in ("cpu", "cpu:1", "cpu:2"))
_LABEL = "pretended_device"
_FREE = {"copy_", "__get__", "__set__", "grad", "backward", "__hash__", "__deepcopy__"}
"""Functions that torch runs on tensors of several devices, and those that no device matters to."""
_HOST = {"numpy", "__array__"}
_INDEXING = {"__getitem__", "__setitem__"}


def label(tensor: Tensor) -> torch.device:
    """The device that a tensor pretends to be on."""
    return vars(tensor).get(_LABEL, CPU)


def labelled(tensor: Any, device: torch.device) -> Any:
    """The same tensor, on another device."""
    if isinstance(tensor, Tensor):
        setattr(tensor, _LABEL, device)
    return tensor


class Devices(TorchFunctionMode):
    """Refuses to mix devices, as machines with several do."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        if func == torch.Tensor.device.__get__:
            return label(args[0])
        if func == torch.Tensor.data.__set__:  # type: ignore[attr-defined]
            func(*args)
            return labelled(args[0], label(args[1]))
        if name in ("to", "cpu", "type_as") and isinstance(args[0], Tensor):
            return _moved(name, args[0], args[1:], kwargs)
        tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        if name in _HOST and label(tensors[0]) != CPU:
            raise TypeError(f"can't convert a tensor of {label(tensors[0])} to numpy: {name}")
        devices = {label(each) for each in tensors if each.ndim or label(each) != CPU}
        if name in _INDEXING:  # an index may be in the CPU's memory
            devices = {each for each in devices if each != CPU} or devices
        if len(devices) > 1 and name not in _FREE:
            found = ", ".join(f"{tuple(each.shape)} on {label(each)}" for each in tensors)
            raise RuntimeError(f"Expected all tensors to be on the same device: {name} of {found}")
        wanted = kwargs.pop("device", None)
        where = label(tensors[0]) if name in _FREE and tensors else next(iter(devices), CPU)
        where = where if wanted is None else torch.device(wanted)
        output = func(*args, **kwargs)
        if name == "grad":  # of each input, where it is
            inputs = [each for each in tree_leaves(args[1]) if isinstance(each, Tensor)]
            new = (None if each is None else each.view_as(each) for each in output)
            return tuple(map(labelled, new, map(label, inputs)))
        known = {id(each) for each in tensors}
        return tree_map(lambda each: each if id(each) in known else labelled(each, where), output)


def _moved(name: str, tensor: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    device, dtype = CPU if name == "cpu" else None, None
    for each in (*args, *(kwargs.get(key) for key in ("device", "dtype", "other"))):
        if isinstance(each, Tensor):
            device, dtype = label(each), each.dtype
        elif isinstance(each, torch.dtype):
            dtype = each
        elif isinstance(each, torch.device | str):
            device = torch.device(each)
    device, dtype = device or label(tensor), dtype or tensor.dtype
    if (device, dtype) == (label(tensor), tensor.dtype) and not kwargs.get("copy"):
        return tensor
    return labelled(tensor.to(dtype, copy=True), device)


@contextmanager
def _labelled_parameters() -> Iterator[None]:
    """Inside, parameters are on the device of the tensor that they are made of."""
    new = nn.Parameter.__new__

    def of(cls: Any, data: Any = None, requires_grad: bool = True, **others: Any) -> Any:
        made = new(cls, data, requires_grad)
        return made if data is None else labelled(made, label(data))

    nn.Parameter.__new__ = of  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.Parameter.__new__ = new  # type: ignore[method-assign]


@contextmanager
def spread(model: nn.Module, places: Mapping[str, torch.device]) -> Iterator[None]:
    """Inside, accelerate has moved a model's modules to the devices that a map names."""
    skipped = [*(getattr(model, "_skip_keys_device_placement", None) or ())]
    main = next(iter(places.values()))
    with _labelled_parameters(), Devices():
        dispatch_model(model, dict(places), main_device=main, skip_keys=skipped)
        yield
