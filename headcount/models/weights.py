"""Quantized models: weights that are packed, of which rows can't be cut out.

Packages that pack weights in tensors of their own pass gradients through them, as adapters need.
Torch's own modules pass none.

Copies with random weights, and the number formats of a model's tensors and of its files.
"""

import copy
import json
import pickle
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import torch
from huggingface_hub import try_to_load_from_cache
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import ModelError
from headcount.models.model_files import NotLookedUpError, file_of, shards, tensors_in
from headcount.models.sentence_transformer import transformer_folder
from headcount.models.spread import laid_out_as
from headcount.tap import check_not_split, is_packed, is_spread

_NAMESPACE = ".quantized."
"""Part of the names of torch's modules that hold packed weights which are no parameters."""


def check_not_quantized(model: PreTrainedModel) -> None:
    """Check that a model's weights are plain numbers, which can be cut and trained.

    Raises:
        ModelError: if some are packed; names the first. If the model is split over processes.
    """
    check_not_split(model, "new weights")
    packed = _first_module(model) or _first_parameter(model)
    if packed is not None:
        raise ModelError(
            f"Expected plain weights, got {_said(model)}: {packed}. Packed weights can't be cut or "
            "trained, so it can be measured and gated, but not made smaller. Load it without "
            "quantization."
        )


def check_passes_gradients(model: PreTrainedModel) -> None:
    """Check that no weight is packed in a module of torch, which passes no gradient.

    Raises:
        ModelError: if some are; names the first.
    """
    packed = _first_module(model)
    if packed is not None:
        raise ModelError(
            f"Expected weights that gradients pass through, got {_said(model)}: {packed}, which "
            "passes none. Score its heads without gradients (ablation, sink), or load it without "
            "quantization."
        )


def check_weights_read(model: PreTrainedModel, what: str) -> None:
    """Check that no weight is packed, for something that computes with single numbers of weights.

    Args:
        model: the model.
        what: what computes with them.

    Raises:
        ModelError: if some are packed; names the first.
    """
    packed = _first_module(model) or _first_parameter(model)
    if packed is not None:
        raise ModelError(
            f"Expected plain weights for {what}, which computes with their single numbers, got "
            f"{_said(model)}: {packed}. Use another score, or load it without quantization."
        )


def _said(model: PreTrainedModel) -> str:
    """The model's class, and what quantized it."""
    config = getattr(model.config, "quantization_config", None)
    method = getattr(config, "quant_method", None)
    by = "" if method is None else f" by {getattr(method, 'value', method)}"
    return f"a {type(model).__name__} quantized{by}"


def _first_module(model: PreTrainedModel) -> str | None:
    """The first of torch's modules that hold packed weights."""
    for name, module in model.named_modules():
        if _NAMESPACE in type(module).__module__:
            return f"{name} is a {type(module).__module__}.{type(module).__name__}"
    return None


def _first_parameter(model: PreTrainedModel) -> str | None:
    """The first parameter that is packed."""
    for name, parameter in model.named_parameters():
        if is_packed(parameter):
            return f"{name} is a {type(parameter).__name__} of {parameter.dtype}"
    return None


def random_copy(model: PreTrainedModel, seed: int = 0) -> PreTrainedModel:
    """The same class and configurations, newly initialised; global random state is kept.

    Raises:
        ModelError: if the model is split over processes.
    """
    check_not_split(model, "a copy with random weights")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        # In the model's number format, except for tables that the class keeps in another
        fresh = type(model)._from_config(copy.deepcopy(model.config), dtype=model.dtype)
    if fresh.can_generate():
        fresh.generation_config = copy.deepcopy(model.generation_config)
    if is_spread(model):
        return laid_out_as(model, fresh, fresh.state_dict().__getitem__).eval()
    return fresh.to(model.device).eval()  # type: ignore[arg-type]


def keep_formats(model: PreTrainedModel, state: Mapping[str, Tensor]) -> None:
    """Convert a model's tensors to the formats of those in a state."""
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if name in state:
            tensor.data = tensor.data.to(state[name].dtype)


FORMATS = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64}
"""Number formats by their names in safetensors files."""


def source_format(name: str) -> torch.dtype | None:
    """The format of most numbers in a checkpoint, or what its configuration says; None if unknown.

    Only files that are here already are read.
    """
    try:
        folder = transformer_folder(name)
        for file in ("model.safetensors", "pytorch_model.bin"):
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
    first = min(shards(index))
    return _present(name, f"{file.rpartition('/')[0]}/{first}".removeprefix("/"))


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
        for each in tensors_in(weights).values():
            if each["dtype"] in FORMATS:
                start, end = each["data_offsets"]
                dtype = FORMATS[each["dtype"]]
                sizes[dtype] += (end - start) // dtype.itemsize
    found = [dtype for dtype, _ in sizes.most_common() if dtype in FORMATS.values()]
    return found[0] if found else None
