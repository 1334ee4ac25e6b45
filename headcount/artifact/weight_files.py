"""Weights: a model's weights as files, in the number format of their source.

Models are loaded in float32 by default, since that is the most exact to measure in. A tensor that
was only cut still fits the 16-bit format that it was read in; one that was trained, folded or
rescaled needs the format that it was computed in.
"""

import json
import pickle
import warnings
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import split_torch_state_dict_into_shards, try_to_load_from_cache
from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedModel
from transformers.core_model_loading import revert_weight_conversion

from headcount.core import write_json
from headcount.models import NotLookedUpError, file_of, transformer_folder
from headcount.tap import is_spread, weights_of

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
    tensors, num_wider, num_exact = _in_format(state, source)
    return tensors, source if 0 < num_wider == num_exact else None


def _in_format(
    state: Mapping[str, Tensor], source: torch.dtype | None
) -> tuple[dict[str, Tensor], int, int]:
    """Tensors in the format of their source where that is exact.

    Returns:
        The tensors, the number of those that were wider, and how many of them are exact.
    """
    wider = [each for each in state.values() if source and _is_wider(each, source)]
    if source is None or not wider:
        return dict(state), 0, 0
    narrowed = {_memory(each): each.to(source) for each in wider}
    kept = {_memory(each): each for each in wider}
    exact = {
        place: narrow
        for place, narrow in narrowed.items()
        if torch.equal(narrow.to(kept[place].dtype), kept[place])
    }
    tensors = {key: exact.get(_memory(each), each) for key, each in state.items()}
    return tensors, len(narrowed), len(exact)


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


def write_weights(folder: Path, model: PreTrainedModel) -> None:
    """Write configuration and weights, in the number format of their source where it holds them."""
    computed = model._keys_to_ignore_on_save or ()  # by the class, as Marian's positions are
    state = {name: each for name, each in model.state_dict().items() if name not in computed}
    name = model.config.name_or_path or ""
    if is_spread(model):
        dtype = _write_shards(folder, model, state, _source_format(name))
    else:
        state, dtype = in_source_format(state, name)
        model.save_pretrained(folder, state_dict=state)
    if dtype is not None:
        patch(folder / "config.json", dtype=str(dtype).removeprefix("torch."))


def _write_shards(
    folder: Path,
    model: PreTrainedModel,
    state: Mapping[str, Tensor],
    source: torch.dtype | None,
) -> torch.dtype | None:
    """Write configuration and weights, of which one file at a time is in memory.

    Args:
        folder: Folder to write into.
        model: Model that is spread over devices, memory and disk.
        state: Its tensors by name; numbers may be away.
        source: Format of its source.

    Returns:
        The source's format if all tensors have it now.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # which says what is done here
        model.save_pretrained(folder, state_dict={})
    tied = getattr(model, "all_tied_weights_keys", {})
    once = {name: each for name, each in state.items() if tied.get(name) not in state}
    shards = split_torch_state_dict_into_shards(
        once, filename_pattern="model{suffix}.safetensors", max_shard_size=SHARD
    )
    places, num_wider, num_exact = dict[str, str](), 0, 0
    for file, names in shards.filename_to_tensors.items():
        tensors = {name: _numbers(model, name).contiguous() for name in names}
        tensors, wider, exact = _in_format(tensors, source)
        tensors = revert_weight_conversion(model, tensors)
        save_file(tensors, folder / file, metadata={"format": "pt"})
        num_wider, num_exact = num_wider + wider, num_exact + exact
        places |= dict.fromkeys(tensors, file)
    if shards.is_sharded:
        index = {"metadata": shards.metadata, "weight_map": places}
        write_json(folder / f"{_FILES[0]}.index.json", index)
    return source if 0 < num_wider == num_exact else None


def _numbers(model: PreTrainedModel, name: str) -> Tensor:
    """A tensor of a model, from wherever it is kept."""
    path, _, kind = name.rpartition(".")
    return weights_of(model.get_submodule(path))[kind].detach().cpu()


SHARD = "5GB"
"""Largest size of a file of weights of a model that is spread."""


def patch(path: Path, **values: Any) -> None:
    """Set fields of a JSON file."""
    write_json(path, json.loads(path.read_text(encoding="utf-8")) | values)
