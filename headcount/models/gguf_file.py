"""GGUF: models in llama.cpp's format, in one file with their configuration and tokenizer.

transformers reads such a file (`gguf_file=...`) and keeps it marked as quantized, although its
weights were unpacked: it can't be trained, copied in another format or saved. So the weights are
put into a model of the same class and configuration that was never packed.
"""

import copy
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel

from headcount.core import InputError, amount, check_is_no_pipe
from headcount.models.compact_checkpoint import auto_classes
from headcount.models.model_files import Place

_PART = re.compile(r"-\d{5}-of-\d{5}\.gguf$")
_OTHERS = ("*.safetensors", "*.bin", "*.pt", "*.h5", "*.msgpack")


def gguf_of(place: Path) -> Path | None:
    """The GGUF file that a path names, or the only weights in the folder that it names.

    None if it names neither.

    Raises:
        InputError: if there are several such files, or a part of one, or the package that reads
            them is missing.
    """
    found = [place] if place.is_file() and place.suffix == ".gguf" else []
    if place.is_dir() and not any(any(place.glob(pattern)) for pattern in _OTHERS):
        found = sorted(place.glob("*.gguf"))
    if not found:
        return None
    if any(_PART.search(file.name) for file in found):
        raise InputError(
            f"Expected a whole model in one GGUF file, got {found[0].name}, a part of one. Merge "
            "the parts first: llama-gguf-split --merge FIRST_PART WHOLE.gguf"
        )
    if len(found) > 1:
        names = ", ".join(file.name for file in found)
        raise InputError(
            f"Expected one GGUF file, got {amount(len(found), 'file')}: {names}. Name one of them, "
            f"such as {found[0]}"
        )
    if find_spec("gguf") is None:
        raise InputError(
            f"Expected the package gguf, which reads {found[0].name}, but it is not installed. Run "
            "pip install 'headcount[gguf]'"
        )
    check_is_no_pipe(found[0])
    return found[0]


def unpacked(config: PreTrainedConfig) -> dict[str, PreTrainedConfig]:
    """The configuration of a folder that was saved from a GGUF file, without its mark; else none.

    transformers unpacks such a file, and still marks what it saves as quantized, although these
    weights are plain.
    """
    mark = getattr(config, "quantization_config", None)
    method = mark.get("quant_method") if isinstance(mark, dict) else None
    if method != "gguf":
        return {}
    plain = copy.deepcopy(config)
    vars(plain).pop("quantization_config")
    return {"config": plain}


def read_gguf(place: Place, config: PreTrainedConfig, dtype: str) -> PreTrainedModel:
    """Read a GGUF file as a plain model: a causal language model, or whatever its type is.

    Args:
        place: Folder and name of the file.
        config: Configuration that transformers made from the file.
        dtype: Number format of the weights.
    """
    known = auto_classes(type(config))
    names = ("AutoModelForCausalLM", "AutoModelForSeq2SeqLM")
    kind: Any = next((known[name] for name in names if name in known), AutoModel)
    unpacking = getattr(transformers, "GgufConfig", None)  # from transformers 5.23 on
    more = {} if unpacking is None else {"quantization_config": unpacking(dequantize=True)}
    packed = place.read(kind, config=config, dtype=dtype, **more)
    plain_config = copy.deepcopy(packed.config)
    vars(plain_config).pop("quantization_config", None)
    plain_config.architectures = [type(packed).__name__]
    with torch.random.fork_rng(devices=[]):
        plain = type(packed)(plain_config).to(packed.dtype)
    plain.load_state_dict(packed.state_dict(), assign=True)
    plain.tie_weights()
    plain.generation_config = packed.generation_config
    return plain
