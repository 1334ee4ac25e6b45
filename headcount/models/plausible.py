"""Plausible: a configuration's sizes against the weight files beside it, before anything is built.

A number of layers, a width or a vocabulary of a million million would be built, layer by layer or
number by number, until the process is killed. Every size needs at least as many bytes of weights,
and every layer a tensor, except in models whose layers share theirs. Afterwards, the first tensor
that does not fit, or the field whose value is unknown, is the reason why a model can't be loaded.
"""

import json
import re
import struct
from collections.abc import Iterator
from contextlib import suppress
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
COMPUTED_POSITIONS = 65_536
"""Largest number of positions of models that compute a table of sines, often number by number."""

_LAYERS = re.compile(r"(layers?|blocks?|depths?|repeats?)$")
_POSITIONS = re.compile(r"(position|context|length|window)")
_SIZES = re.compile(r"(heads?|groups?|experts|size|dims?|embd|inner|labels|states?|^d_\w+|_rank)$")
_FIT = "to fit the weight files beside it, which hold"
_POSITIVE = re.compile(r"(^|_)(heads|layers|hidden_size|vocab_size|intermediate_size|d_model)$")
_WITH_SINES = frozenset(
    "autoformer codegen distilbert flaubert fsmt gptj informer kosmos-2 m2m_100 marian "
    "musicgen_decoder musicgen_melody_decoder nllb-moe pegasus pegasus_x roformer seamless_m4t "
    "seamless_m4t_v2 speech_to_text speecht5 time_series_transformer trocr whisper xglm xlm".split()
)
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
    sines = sorted(_WITH_SINES.intersection(_model_types(config)))
    for name, value in _numbers(config):
        if value < 0 and _POSITIVE.search(name):
            raise ModelError(
                f"Expected {name} in {path} to be positive, got {value:,}. Copy config.json again."
            )
        if _LAYERS.search(name):
            holds = amount(num_tensors, "tensor") if num_tensors else held
            most, must = max(LAYERS, num_tensors or num_bytes), f"{_FIT} {holds}"
        elif "position" in name and sines:
            most = COMPUTED_POSITIONS
            must = f"to be at most {most:,}, since a {sines[0]} computes a row of sines for each"
        elif _POSITIONS.search(name):
            most, must = max(POSITIONS, num_bytes), f"{_FIT} {held}"
        elif _SIZES.search(name):
            most, must = max(SIZE, num_bytes), f"{_FIT} {held}"
        else:
            continue
        if value > most:
            raise ModelError(
                f"Expected {name} in {path} {must}, got {value:,}. Copy config.json again, or the "
                "weights."
            )


STOCK_ATTENTION = (None, "eager", "sdpa")
"""Implementations of attention for which transformers never fetches code."""


def stock_attention(config: PreTrainedConfig, trusted: bool) -> dict[str, None]:
    """Options for transformers that keep it from fetching kernels that config.json names.

    Args:
        config: Configuration of the model.
        trusted: Whether code that comes with the model may run.

    Raises:
        ModelError: If it names a kernel of the hub and is not trusted.
    """
    parts = [config, *(getattr(config, name, None) for name in config.sub_configs)]
    named = [getattr(part, "_attn_implementation", None) for part in parts]
    if trusted or all(each in STOCK_ATTENTION for each in named):
        return {}
    if fetched := [each for each in named if "/" in str(each)]:
        raise ModelError(
            f"its config.json names {fetched[0]!r:.80} as the implementation of attention, code "
            "that would be fetched from the hub and run. Delete the name, or give "
            "--trust-remote-code, or load(..., trust_remote_code=True)."
        )
    return {"attn_implementation": None}


def unknown_value(folder: Path, error: BaseException) -> str | None:
    """The field of a folder's config.json that an error is about; None if it is not found.

    Args:
        folder: Folder of the model.
        error: A failed look-up of a name, or a division by zero.
    """
    value = error.args[0] if isinstance(error, KeyError) and error.args else None
    value = error.name if isinstance(error, AttributeError) else value
    with suppress(Exception):  # the error that is being explained comes first
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if isinstance(error, ZeroDivisionError):
            zero = [name for name, each in _numbers(config) if each == 0 and _SIZES.search(name)]
            return f"config.json says {zero[0]}: 0" if zero else None
        fields = [name for name, each in config.items() if isinstance(value, str) and each == value]
        if fields:
            return f"config.json says {fields[0]}: {value!r}, which transformers does not know"
    return None


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


def _model_types(value: Any) -> Iterator[str]:
    """The types of a model and of the models that it consists of."""
    if isinstance(value, dict):
        if isinstance(found := value.get("model_type"), str):
            yield found
        for each in value.values():
            yield from _model_types(each)


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
