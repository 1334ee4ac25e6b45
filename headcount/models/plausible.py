"""Plausible: a configuration's sizes against the weight files beside it, before anything is built.

A number of layers, a width or a vocabulary of a million million would be built, layer by layer or
number by number, until the process is killed. Every size needs at least as many bytes of weights,
and every layer a tensor, except in models whose layers share theirs. Afterwards, the first tensor
that does not fit is the reason why a model can't be loaded.
"""

import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedConfig

from headcount.core import InputError, ModelError, amount, read_json, reading

LAYERS = 200
"""Largest number of layers in any case, since layers may share tensors (ALBERT)."""
SIZE = 1_000_000
"""Largest width, vocabulary or number of heads in any case."""
POSITIONS = 20_000_000
"""Largest number of positions in any case, since rotary positions need no weights."""

_LAYERS = re.compile(r"(layers?|blocks?|depths?|repeats?)$")
_POSITIONS = re.compile(r"(position|context|length|window)")
_SIZES = re.compile(r"(heads?|groups?|experts|size|dims?|embd|inner|labels|states?|^d_\w+|_rank)$")
_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.h5", "*.msgpack", "*.gguf")


def check_plausible(folder: Path) -> None:
    """Check that a folder's weight files can hold the layers and sizes that its config.json names.

    Raises:
        ModelError: If they are far too small; names the field.
        InputError: If config.json can't be read, or `auto_map` in it is no object.
    """
    if not (path := folder / "config.json").is_file():
        return
    what, advice = "the configuration of a model", "Copy the model again."
    config = read_json(path, what, advice)
    if not isinstance(config, dict):
        raise InputError(f"Expected {what} in {path}, got {_kind(config)}. {advice}")
    if not isinstance(auto_map := config.get("auto_map", {}), dict):
        raise InputError(
            f"Expected the names of classes as auto_map in {path}, got {_kind(auto_map)}. Delete "
            "it, or copy the model again."
        )
    files = [file for pattern in _WEIGHTS for file in folder.glob(pattern)]
    if not files:
        return  # transformers says which are missing
    num_bytes, num_tensors = sum(file.stat().st_size for file in files), _num_tensors(files)
    held = f"{amount(num_bytes, 'byte')} of weights"
    for name, value in _numbers(config):
        if _LAYERS.search(name):
            most, holds = max(LAYERS, num_tensors or num_bytes), amount(num_tensors, "tensor")
        elif _POSITIONS.search(name):
            most, holds = max(POSITIONS, num_bytes), held
        elif _SIZES.search(name):
            most, holds = max(SIZE, num_bytes), held
        else:
            continue
        if value > most:
            holds = holds if num_tensors else held
            raise ModelError(
                f"Expected {name} in {path} to fit the weight files beside it, which hold {holds}, "
                f"got {value:,}. Copy config.json again, or the weights."
            )


def first_mismatch(folder: Path, kind: Any, config: PreTrainedConfig) -> str | None:
    """The first tensor in a folder's files whose shape is not that of the model; None if none is.

    Args:
        folder: Folder with weights in safetensors files.
        kind: Class of the model.
        config: Configuration of the model.
    """
    with torch.device("meta"):
        model = kind._from_config(config)
    expected = {name: tuple(each.shape) for name, each in model.state_dict().items()}
    body = f"{model.base_model_prefix}."
    for file in sorted(folder.glob("*.safetensors")):
        for name, found in _shapes(file).items():
            shape = expected.get(name, expected.get(body + name))
            shape = expected.get(name.removeprefix(body)) if shape is None else shape
            if shape not in (None, found):
                return (
                    f"{name} in {file.name} has the shape {found}, and its config.json makes it "
                    f"{shape}"
                )
    return None


def _numbers(value: Any, name: str = "") -> Iterator[tuple[str, int]]:
    """All integers in a configuration, with the names of their fields."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _numbers(each, str(key))
    elif isinstance(value, list):
        for each in value:
            yield from _numbers(each, name)
    elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300:
        yield name, int(value)


def _num_tensors(files: list[Path]) -> int:
    """Number of tensors in safetensors files; 0 if there are no such files."""
    return sum(len(_shapes(file)) for file in files if file.suffix == ".safetensors")


def _shapes(file: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of a file's tensors, from its header."""
    with reading(file, "weights", "Copy the model again."), file.open("rb") as opened:
        length = struct.unpack("<Q", opened.read(8))[0]
        if length > file.stat().st_size:
            raise ValueError("the file is truncated")
        header = json.loads(opened.read(length))
        header.pop("__metadata__", None)
        return {name: tuple(each["shape"]) for name, each in header.items()}


def _kind(value: Any) -> str:
    """What a value of JSON is, in words."""
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return "null" if value is None else kinds.get(type(value), "a number")
