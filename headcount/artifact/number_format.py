"""Number format: weights are written in the format of their source, unless that would change them.

Models are loaded in float32 by default, since that is the most exact to measure in. A tensor that
was only cut still fits the 16-bit format that it was read in; one that was trained, folded or
rescaled needs the format that it was computed in.
"""

import json
import pickle
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import try_to_load_from_cache
from torch import Tensor

from headcount.models import NotLookedUpError, file_of, transformer_folder

FORMATS = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64}
"""Number formats by their names in safetensors files."""
_FILES = ("model.safetensors", "pytorch_model.bin")


def in_source_format(
    state: Mapping[str, Tensor], name: str
) -> tuple[dict[str, Tensor], torch.dtype | None]:
    """A model's tensors, each in the format of its source where that holds the same numbers.

    Args:
        state: The tensors; those that share memory share it in the result, too.
        name: Folder or hub name of the source; empty for a model made in memory.

    Returns:
        The tensors, and the source's format if all of them have it now.
    """
    source = _source_format(name)
    wider = [each for each in state.values() if source and _is_wider(each, source)]
    if source is None or not wider:
        return dict(state), None
    narrowed = {_memory(each): each.to(source) for each in wider}
    kept = {_memory(each): each for each in wider}
    exact = {
        place: narrow
        for place, narrow in narrowed.items()
        if torch.equal(narrow.to(kept[place].dtype), kept[place])
    }
    tensors = {key: exact.get(_memory(each), each) for key, each in state.items()}
    return tensors, source if len(exact) == len(narrowed) else None


def _is_wider(tensor: Tensor, source: torch.dtype) -> bool:
    return tensor.is_floating_point() and tensor.element_size() > source.itemsize


def _memory(tensor: Tensor) -> tuple[Any, ...]:
    return (tensor.device, tensor.data_ptr(), tuple(tensor.shape), tensor.stride())


def _source_format(name: str) -> torch.dtype | None:
    """The format of most numbers in a checkpoint, or what its configuration says; None if unknown.

    Only files that are here already are read.
    """
    try:
        folder = transformer_folder(name)
        for file in _FILES:
            if (weights := _weights_file(name, f"{folder}/{file}".removeprefix("/"))) is not None:
                return _format_of(weights)
        config = file_of(name, f"{folder}/config.json".removeprefix("/"))
        said = {} if config is None else json.loads(config.read_text(encoding="utf-8"))
    except (NotLookedUpError, OSError, ValueError, KeyError, RuntimeError, pickle.PickleError):
        return None
    found = getattr(torch, str(said.get("dtype", said.get("torch_dtype"))), None)
    return found if found in FORMATS.values() else None


def _weights_file(name: str, file: str) -> Path | None:
    """The file with the weights, or the first of its shards."""
    if (found := _present(name, file)) is not None:
        return found
    if (index := _present(name, f"{file}.index.json")) is None:
        return None
    shards = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
    return _present(name, f"{file.rpartition('/')[0]}/{min(shards)}".removeprefix("/"))


def _present(name: str, file: str) -> Path | None:
    if not name:
        return None
    if Path(name).is_dir():
        return file_of(name, file)
    found = try_to_load_from_cache(name, file)
    return Path(found) if isinstance(found, str) else None


def _format_of(weights: Path) -> torch.dtype | None:
    """The format of most numbers in a file."""
    sizes: Counter[torch.dtype] = Counter()
    if weights.suffix == ".bin":
        state = torch.load(weights, map_location="meta", mmap=True, weights_only=True)
        for tensor in state.values():
            sizes[tensor.dtype] += tensor.numel()
    else:
        with weights.open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        for name, each in header.items():
            if name != "__metadata__" and each["dtype"] in FORMATS:
                start, end = each["data_offsets"]
                dtype = FORMATS[each["dtype"]]
                sizes[dtype] += (end - start) // dtype.itemsize
    found = [dtype for dtype, _ in sizes.most_common() if dtype in FORMATS.values()]
    return found[0] if found else None
