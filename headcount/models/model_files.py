"""Files of a model besides those that transformers reads, in its folder or on the hub."""

import json
import struct
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from huggingface_hub import _CACHED_NO_EXIST, hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import (
    HFValidationError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
)

from headcount.core import (
    DATA,
    InputError,
    ModelError,
    check_inside,
    check_is_no_pipe,
    inside,
    read_json,
    reading,
    reason,
)


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
        raise NotLookedUpError(reason(error)) from error


_SOUND = "granite_speech hubert moonshine sew speech_to_text speecht5 wav2vec2 wavlm whisper"
SOUND_TYPES = frozenset(_SOUND.split())
"""Types of models that read sound."""


def reads_sound(name: str) -> bool:
    """Whether a model reads sound by its configuration; False if that can't be looked up."""
    try:
        path = file_of(str(place_of(name)), "config.json")
        config = None if path is None else read_json(path, "a configuration", "Copy it again.")
    except (NotLookedUpError, InputError):
        return False  # what is wrong is reported when the model is loaded
    return isinstance(config, dict) and config.get("model_type") in SOUND_TYPES


def is_saved(name: str, file: str) -> bool:
    """Whether a model has a file, as far as that can be looked up."""
    try:
        return file_of(name, file) is not None
    except NotLookedUpError:
        return False


@final
@dataclass(frozen=True)
class Place:
    """Where the files of a model are, and how transformers reads them."""

    name: str | Path
    """A folder, or a name on the hub."""
    subfolder: str = ""
    """The folder inside it of weights and tokenizer."""
    trusted: bool = False
    """Whether code that comes with the model may run."""
    gguf: str | None = None
    """Name of the GGUF file that holds the model; None for other files."""

    @property
    def folder(self) -> Path:
        """The folder, which is not there for a name on the hub."""
        return Path(self.name)

    def read(self, kind: Any, **options: Any) -> Any:
        """What a class of transformers reads there."""
        if self.gguf is not None:
            options["gguf_file"] = self.gguf
        return kind.from_pretrained(
            self.name, subfolder=self.subfolder, trust_remote_code=self.trusted, **options
        )

    def has(self, file: str) -> bool:
        """Whether there is a file beside the weights, as far as that can be looked up."""
        return is_saved(str(self.name), self.file(file))

    def file(self, name: str) -> str:
        """The path of a file beside the weights, from the folder or the root on the hub."""
        return f"{self.subfolder}/{name}".removeprefix("/")


PROCESSOR_CONFIGS = ("processor_config.json", "preprocessor_config.json")
"""Files with the settings of a processor of images, or of images and texts."""


def warn_of_processor(place: Place, what: str, error: Exception) -> None:
    """Warn that an existing processor can't be read, and why."""
    if any(map(place.has, PROCESSOR_CONFIGS)):
        warnings.warn(
            f"{place.name}: its {what} can't be read and is ignored: {reason(error)}", stacklevel=4
        )


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
        for name in shards(index):
            inside(folder, name)


def shards(index: Path) -> set[str]:
    """The names of the files that an index of weights names.

    Raises:
        InputError: if the index can't be read.
    """
    what, advice = "the weight files by the names of weights", "Copy the model again."
    with reading(index, what, advice):
        return set(read_json(index, what, advice)["weight_map"].values())


def tensors_in(file: Path) -> dict[str, dict[str, Any]]:
    """The tensors in a safetensors file: shape, format and place of each, by its name.

    Raises:
        InputError: if the file can't be read.
    """
    with reading(file, "weights", "Copy the model again."), file.open("rb") as opened:
        length = struct.unpack("<Q", opened.read(8))[0]
        if length > file.stat().st_size:
            raise ValueError("the file is truncated")
        found = json.loads(opened.read(length))
        found.pop("__metadata__", None)
        return found


def plan_in(folder: Path) -> Any:
    """The `head_plan` in the configuration in a folder; None if no compact model is there."""
    try:
        return json.loads((folder / "config.json").read_text(encoding="utf-8"))["head_plan"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


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
