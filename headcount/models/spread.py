"""Split: models of which each process has some heads of every layer (tensor parallelism).

transformers splits the weights while it reads them, by a plan that the class of the model has.

Spread: a new model laid out over devices, memory and disk as the model that it comes from.

Its class makes it without numbers. They are then read one tensor at a time and put where the map of
the other model's devices says, so a model is never whole in memory.
"""

import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import torch
from accelerate import cpu_offload, dispatch_model, init_empty_weights
from accelerate.utils import set_module_tensor_to_device
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.distributed.configuration_utils import DistributedConfig

from headcount.core import InputError, ModelError, amount, is_alone, processes, work_together
from headcount.models.compact_checkpoint import is_compact
from headcount.models.model_files import Place
from headcount.tap import check_divides, holder_of, input_device, is_spread, weight_away

TP: Final = "tp"
"""The name of the device that stands for all processes of a run; `tp:N` for every N of them."""


class _Copies(DistributedConfig):
    """A model for every `tp_size` processes, which don't add up their gradients as FSDP would."""

    @property
    def dp_size(self) -> int:
        """Number of processes over which FSDP is applied."""
        return 1


def is_split(device: str) -> bool:
    """Whether the name of a device stands for several processes."""
    return device.partition(":")[0] == TP


def _size(device: str) -> int:
    """The number of processes that a device of that kind stands for."""
    every, (_, colon, number) = processes().num_processes, device.partition(":")
    size = int(number) if number.isdecimal() and number.isascii() else 0
    if colon and (size < 2 or every % size):
        raise InputError(
            f"Expected --device tp:N with a number of 2 or more that divides the "
            f"{amount(every, 'process')} of this run, got {device}. Name another number, or tp for "
            "all of them"
        )
    return size if colon else every


def _check_can_split(config: PreTrainedConfig, place: Place) -> None:
    """Check that a model can be split over the processes of this run."""
    if is_alone():
        raise InputError(
            "Expected several processes for --device tp, which splits every layer over them, got "
            "one. Start them with torchrun --nproc-per-node N"
        )
    if place.gguf is not None or is_compact(config):
        kind = "a GGUF file" if place.gguf else "a compact model, whose layers differ in heads"
        raise InputError(
            f"Expected safetensors files of a whole model for --device tp, got {kind}. Load it on "
            "one device"
        )


def read_split(
    read: Callable[[Mapping[str, Any]], PreTrainedModel],
    config: PreTrainedConfig,
    place: Place,
    attention: Mapping[str, Any],
    device: str,
) -> PreTrainedModel:
    """What a function reads with transformers' options for tensor parallelism.

    All processes of the run, or every N of them, then work together: each has some heads of every
    layer, on a GPU of its own if there are any.

    Args:
        read: reads a model with transformers' options.
        config: its configuration.
        place: where it is.
        attention: the options that choose its attention.
        device: `tp`, or `tp:N`.

    Raises:
        InputError: if there is one process, or it is a GGUF file or a compact model.
        ModelError: if its heads can't be shared equally.
    """
    _check_can_split(config, place)
    size = _size(device)
    check_divides(config, size)
    split = _Copies(tp_size=size, dp_replicate_size=processes().num_processes // size)
    model = read({**attention, "distributed_config": split})
    work_together(size)
    return model


AUTO = "auto"
"""Name of the device of a model that is spread over all there are."""
DISK = "disk"
"""Place, in a map of devices, of weights that are read from disk whenever their layer runs."""


DeviceMap = str | Mapping[str, int | str | torch.device]
"""A device, `cpu` or `disk` by the name of a module, or a rule of transformers to choose them."""
_RULES = (AUTO, "balanced", "balanced_low_0", "sequential")


def whole_map(empty: PreTrainedModel, places: DeviceMap) -> str | dict[str, Any]:
    """A device map with a place for every part of a model.

    Args:
        empty: The model, without numbers.
        places: The places by the names of its parts; that of "" is for all that are not named.

    Raises:
        InputError: If the map names what the model has not, leaves out a part, or takes tied
            weights apart.
    """
    if not is_alone():
        raise InputError(
            "Expected one process for --device auto or device_map, which take all devices of a "
            "machine, got several. Run it without torchrun"
        )
    if isinstance(places, str):
        if places not in _RULES:
            raise InputError(
                f"Expected a device_map of {', '.join(_RULES)}, or places by the names of modules, "
                f"got {places!r}. Name a single device with device=..."
            )
        return places
    kind, names = type(empty).__name__, [name for name, _ in empty.named_modules()]
    example = f"A map may name {', '.join(names[1:4])} or '' for all the rest"
    known = {*names, *(name for name, _ in chain(empty.named_parameters(), empty.named_buffers()))}
    if unknown := [name for name in places if name not in known]:
        raise InputError(
            f"Expected names of modules of {kind} in device_map, got {unknown[0]!r}. {example}"
        )
    found = {name: place for name, place in places.items() if name}
    for name in _largest_without(empty, found):
        if "" in places:
            found[name] = places[""]
        elif empty.get_submodule(name).state_dict():
            raise InputError(
                f"Expected a place for every module of {kind} in device_map, got none for "
                f"{name or kind}. {example}"
            )
    for name, source in getattr(empty, "all_tied_weights_keys", {}).items():
        both = {str(_place(found, each)) for each in (name, source)}
        if DISK in both and len(both) > 1:
            raise InputError(
                f"Expected one place for {name} and {source}, which are one weight, got "
                f"{' and '.join(sorted(both))}. Put both on disk or neither"
            )
    return found


def _largest_without(model: nn.Module, places: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Paths of the largest modules with weights that have no place and hold no part with one."""
    inside = f"{path}.".removeprefix(".")
    if path in places or next(chain(model.parameters(), model.buffers()), None) is None:
        return
    if not any(name.startswith(inside) for name in places):
        yield path
        return
    for name, module in model.named_children():
        yield from _largest_without(module, places, f"{inside}{name}")


def read_spread(
    read: Callable[[Mapping[str, Any]], PreTrainedModel],
    places: str | dict[str, Any],
    options: Mapping[str, Any],
) -> PreTrainedModel:
    """What a function reads with transformers' options for a map of devices.

    Weights that transformers must write to disk again are in a folder that lives as long as the
    model.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix=_FOLDER))
        model = read({**options, "device_map": places, "offload_folder": folder})
        weakref.finalize(model, stack.pop_all().close)
    return model


_FOLDER = "headcount-"


def device_map_of(model: PreTrainedModel) -> dict[str, Any] | None:
    """The map of devices that a model was laid out with; None if it is whole on one device."""
    return getattr(model, "hf_device_map", None) if is_spread(model) else None


def empty_like(model: PreTrainedModel) -> AbstractContextManager[Any]:
    """Inside, models are made without numbers if this one is spread; else as ever."""
    return init_empty_weights(include_buffers=False) if is_spread(model) else nullcontext()


def laid_out_as(
    model: PreTrainedModel, empty: PreTrainedModel, read: Callable[[str], Tensor]
) -> PreTrainedModel:
    """Fill a model without numbers, and lay it out as another.

    Args:
        model: The model that is spread.
        empty: What its class makes, with parameters on the meta device.
        read: Gives the numbers of a tensor by its name in the state of the model.
    """
    places, first = device_map_of(model), dict[object, str]()
    folder, index = TemporaryDirectory(prefix=_FOLDER), dict[str, Any]()
    weakref.finalize(empty, folder.cleanup)
    parameters = dict(empty.named_parameters(remove_duplicate=False))
    for name in empty.state_dict():
        parameter = parameters.get(name)
        holder = name if parameter is None else holder_of(empty, name, parameter)
        if (source := first.setdefault(holder, name)) != name:
            if source in index:
                index[name] = index[source]
            continue
        numbers, place = read(name), "cpu" if places is None else _place(places, name)
        if place == DISK and parameter is not None:
            index[name] = _written(numbers, name, Path(folder.name))
        else:
            where = "cpu" if place == DISK else place
            set_module_tensor_to_device(empty, name, where, numbers, numbers.dtype)
    empty.tie_weights()
    if places is None:
        cpu_offload(empty, execution_device=input_device(model))
        return empty
    parts = dict(empty.named_modules())
    dispatch_model(
        empty,
        {path: place for path, place in places.items() if path in parts or path in parameters},
        offload_dir=folder.name,
        offload_index=index or None,
        skip_keys=[*(empty._skip_keys_device_placement or ())],
    )
    return empty


def _place(places: Mapping[str, Any], name: str) -> Any:
    """The place of a tensor: that of the innermost module that the map names."""
    parts = name.split(".")
    inside = (".".join(parts[:end]) for end in range(len(parts), -1, -1))
    return next(places[path] for path in inside if path in places)


def _written(numbers: Tensor, name: str, folder: Path) -> dict[str, str]:
    """Write a tensor to disk; returns the entry of accelerate's index that leads to it."""
    file = folder / f"{name}.safetensors"
    save_file({name: numbers.cpu().contiguous()}, file)
    dtype = str(numbers.dtype).removeprefix("torch.")
    return {"safetensors_file": str(file), "weight_name": name, "dtype": dtype}


def check_whole(model: PreTrainedModel, what: str) -> None:
    """Check that all weights of a model are in memory, for something that changes or copies them.

    Raises:
        ModelError: if some are away; names the first.
    """
    if (away := weight_away(model)) is not None:
        raise ModelError(
            f"Expected a {type(model).__name__} with all weights in memory for {what}, got {away} "
            "in the CPU's memory or on disk, from where it is fetched while its layer runs "
            "(--device auto, device_map). Load the model on one device that has room for it."
        )
