"""Files of a model besides those that transformers reads, in its folder or on the hub.

A GGUF file, llama.cpp's format, holds a model with its configuration and tokenizer. transformers
reads such a file (`gguf_file=...`) and keeps it marked as quantized, although its
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
from huggingface_hub import _CACHED_NO_EXIST, hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import (
    HFValidationError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
)
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel

from headcount.core import (
    DATA,
    InputError,
    ModelError,
    amount,
    check_inside,
    check_is_no_pipe,
    inside,
    read_json,
    reading,
)
from headcount.models.compact_checkpoint import auto_classes


class NotLookedUpError(Exception):
    """The hub can't be asked, so it is unknown whether a model has a file; says why."""


def file_of(name: str, file: str) -> Path | None:
    """Path of a file of a model, fetched from the hub if necessary.

    None if the model has no such file, or there is no such model.

    Raises:
        NotLookedUpError: if the hub can't be asked.
    """
    if not name:
        return None
    if Path(name).is_dir():
        try:
            found = inside(Path(name), file)
        except InputError as error:
            raise ModelError(f"{name}: {error}") from error
        return found if found.is_file() else None
    try:
        if try_to_load_from_cache(name, file) is _CACHED_NO_EXIST:  # the hub said so before
            return None
        return Path(hf_hub_download(name, file))
    except (HFValidationError, RemoteEntryNotFoundError, RepositoryNotFoundError):
        return None
    except OSError as error:
        raise NotLookedUpError((str(error) or type(error).__name__).splitlines()[0]) from error


def is_saved(name: str, file: str) -> bool:
    """Whether a model has a file, as far as that can be looked up."""
    try:
        return file_of(name, file) is not None
    except NotLookedUpError:
        return False


def code_of_others(name: str | Path, file: str) -> list[tuple[str, str]]:
    """Repositories and Python files of others that `auto_map` in a model's JSON file names.

    It names them as `owner/repo--file.Class`; each pair is given once.
    """
    try:
        if (path := file_of(str(name), file)) is None:
            return []
        auto_map = read_json(path, "settings of a model", "Copy the model again.")["auto_map"]
        places = [each if isinstance(each, list) else [each] for each in auto_map.values()]
    except (NotLookedUpError, InputError, LookupError, TypeError, AttributeError):
        return []  # what is wrong with the file is reported elsewhere
    found = [place for several in places for place in several if "--" in str(place)]
    named = [place.partition("--") for place in found]
    return [*dict.fromkeys((repo, f"{code.rpartition('.')[0]}.py") for repo, _, code in named)]


def missing_code(name: str | Path, file: str) -> str | None:
    """What to do about code of another repository that is not in the cache; None if none is."""
    for repo, code in code_of_others(name, file):
        try:
            is_there = isinstance(try_to_load_from_cache(repo, code), str)
        except HFValidationError:  # the path of a folder
            continue
        if not is_there:
            return (
                f"its code, {code}, is in another repository, {repo} (auto_map in {file}), which "
                "was never fetched and can't be reached now. With a connection, fetch it once: "
                f"hf download {repo} --include '*.py'. Or copy its Python files into the model's "
                f"folder and delete '{repo}--' in {file}."
            )
    return None


def check_files(folder: Path) -> None:
    """Check that the files of a model's folder are files, and inside it, as those of an index.

    Raises:
        InputError: if a link or an index leads elsewhere, a file is a pipe, or an index can't be
            read.
    """
    for path in folder.iterdir():
        check_inside(folder, path)
        check_is_no_pipe(path)
    for index in folder.glob("*.index.json"):
        what, advice = "the weight files by the names of weights", "Copy the model again."
        with reading(index, what, advice):
            names = set(read_json(index, what, advice)["weight_map"].values())
            for name in names:
                inside(folder, name)


def check_is_name(name: object) -> None:
    """Check that something is the name of a model or a path.

    Raises:
        InputError: if it is neither.
    """
    if not isinstance(name, str | Path):
        raise InputError(
            f"Expected a Hugging Face model name or a folder, got {name!r:.80}. A model in memory "
            "needs no loading: pass it with tokenizer=... to analyze."
        )


def check_is_no_adapter(folder: Path) -> None:
    """Check that a folder holds a model, not an adapter of PEFT alone.

    Raises:
        InputError: if it holds an adapter; says how to merge it.
    """
    if (folder / "adapter_config.json").exists() and not (folder / "config.json").exists():
        raise InputError(
            "Expected a model, got an adapter of PEFT. Merge it and save the model: "
            "peft.AutoPeftModel.from_pretrained(FOLDER).merge_and_unload().save_pretrained(NEW)."
        )


PREFIX = "headcount:"
SHIPPED = {f"{PREFIX}{folder}": folder for folder in ("en-de", "en-de-36")}
"""Folder of each model by name; each has a card, README.md."""


def place_of(name: str | Path) -> str | Path:
    """The folder of a shipped model; any other name unchanged.

    >>> place_of("google-bert/bert-base-cased")
    'google-bert/bert-base-cased'

    Raises:
        ModelError: for an unknown name of the form `headcount:...`.
    """
    if not str(name).startswith(PREFIX):
        return name
    if str(name) not in SHIPPED:
        raise ModelError(
            f"Expected a model shipped with headcount ({', '.join(SHIPPED)}), got {str(name)!r}."
        )
    return DATA / SHIPPED[str(name)]


OPTION = "gguf_file"
"""Name of transformers' argument for the file."""
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


def read_gguf(folder: Path, config: PreTrainedConfig, dtype: str, options: Any) -> PreTrainedModel:
    """Read a GGUF file as a plain model: a causal language model, or whatever its type is.

    Args:
        folder: Folder of the file.
        config: Configuration that transformers made from the file.
        dtype: Number format of the weights.
        options: Arguments of transformers' `from_pretrained`, with the file's name.
    """
    known = auto_classes(type(config))
    names = ("AutoModelForCausalLM", "AutoModelForSeq2SeqLM")
    kind: Any = next((known[name] for name in names if name in known), AutoModel)
    unpacking = getattr(transformers, "GgufConfig", None)  # from transformers 5.23 on
    more = {} if unpacking is None else {"quantization_config": unpacking(dequantize=True)}
    packed = kind.from_pretrained(folder, config=config, dtype=dtype, **more, **options)
    plain_config = copy.deepcopy(packed.config)
    vars(plain_config).pop("quantization_config", None)
    plain_config.architectures = [type(packed).__name__]
    with torch.random.fork_rng(devices=[]):
        plain = type(packed)(plain_config).to(packed.dtype)
    plain.load_state_dict(packed.state_dict(), assign=True)
    plain.tie_weights()
    plain.generation_config = packed.generation_config
    return plain
