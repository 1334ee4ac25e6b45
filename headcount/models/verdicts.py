"""Verdicts: the self-check of a model from files is made once, and its anatomy is kept.

A verdict holds for the same files (path, size, time and inode of each; on the hub, the commit) on
the same device and kind of processor, in the same number format, with the same attention, modules,
settings, versions of torch and transformers, and code of headcount. Its file lies in the user's
cache folder, or in the folder that `HEADCOUNT_CACHE` names, and holds its own hash: one that is
damaged, or of something else, is not read, and the model is checked again. Models made in memory,
with code of their own, spread over devices, or changed since they were read are always checked.
"""

import hashlib
import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, final
from weakref import ref

import torch
from transformers import AttentionInterface, PreTrainedModel

from headcount.core import InputError, LayerId, cache_folder, encoded, short_hash
from headcount.results import read_sealed, write_sealed
from headcount.tap import Anatomy, AttentionLayer, examine, implementation_of, input_device

KEPT = 200
"""Number of verdicts that are kept, the latest."""

_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_COMMAND = "headcount doctor"


@final
class Source:
    """The files that a model was read from, and the model as it was then.

    Args:
        model: the model, once it is where it stays.
        folders: its local folders; none for a model on the hub.
        name: what it was called.
    """

    def __init__(self, model: PreTrainedModel, folders: list[Path], name: str) -> None:
        self._model, self._state = ref(model), _state(model)
        commit = getattr(model.config, "_commit_hash", None)
        self._files = _files(folders) if folders else f"{name}@{commit}" if commit else None
        self._own_code = type(model).__module__.startswith("transformers_modules")

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy of a model, or a pickled one, is one in memory, without a source."""
        return type(None), ()

    def anatomy(self, model: PreTrainedModel, again: bool) -> Anatomy:
        """The anatomy of a model, by a verdict if there is one for it.

        Args:
            model: the model.
            again: whether to check it whatever verdict there is.
        """
        key = self._key(model)
        path = None if key is None else cache_folder("checks") / f"{short_hash(str(key), 32)}.json"
        if path is None or key is None:
            return examine(model)
        found = None if again else _read(path, key)
        if found is None:
            found = examine(model)
            if not (found.unseen or found.not_run):  # these warn in every run
                with suppress(OSError):  # a folder that can't be written costs time, no more
                    _write(path, key, found)
        return found

    def _key(self, model: PreTrainedModel) -> dict[str, str] | None:
        """Everything that a verdict depends on; None if that is not known."""
        is_same = self._model() is model and self._state == _state(model)
        if self._state is None or not is_same or self._files is None or self._own_code:
            return None
        try:
            config = model.config.to_json_string(use_diff=False)
        except (TypeError, ValueError):  # settings of its own that are no JSON
            return None
        attention = implementation_of(model)
        function = AttentionInterface().get(attention or "", None)
        return {
            "files": self._files,
            "device": str(input_device(model)),
            "dtype": str(model.dtype),
            "attention": f"{attention} {_place(function)}",
            "modules": _modules(model),
            "config": short_hash(config),
            "processor": f"{processor()} {torch.backends.cpu.get_cpu_capability()}",
            **{name: version(name) for name in ("torch", "transformers")},
            "headcount": _code(),
        }


@final
@dataclass(frozen=True)
class _Dead:
    """A layer that lost all its heads."""

    site: str
    layer: int
    module: str


@final
@dataclass(frozen=True)
class _Verdict:
    """An anatomy as it is written."""

    key: Mapping[str, str]
    layers: tuple[AttentionLayer, ...]
    dead: tuple[_Dead, ...]
    eager: bool
    implementation: str | None
    differences: Mapping[str, float]
    by_outputs: tuple[str, ...]
    can_block: bool

    def anatomy(self) -> Anatomy:
        """The anatomy."""
        own = {name: each for name, each in vars(self).items() if name not in ("key", "dead")}
        own["differences"] = dict(self.differences)
        dead = {LayerId(each.site, each.layer): each.module for each in self.dead}
        return Anatomy(**own, dead=dead)


def _read(path: Path, key: dict[str, str]) -> Anatomy | None:
    """The anatomy in the file of a verdict; None unless it is whole and of this model."""
    with suppress(InputError, OSError):
        found = read_sealed(path, _COMMAND, "the cache", describes=False).decode(_Verdict)
        return found.anatomy() if found.key == key else None
    return None


def _write(path: Path, key: dict[str, str], anatomy: Anatomy) -> None:
    """Write a verdict, and remove those that are too many."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fields = {name: getattr(anatomy, name) for name in _Verdict.__annotations__ if name != "key"}
    dead = tuple(_Dead(*layer, module) for layer, module in anatomy.dead.items())
    write_sealed(path, encoded(_Verdict(**fields | {"key": key, "dead": dead})), None)
    others = sorted(path.parent.glob("*.json"), key=lambda each: each.stat().st_mtime)
    for each in others[:-KEPT]:
        each.unlink(missing_ok=True)


def _files(folders: list[Path]) -> str:
    """Path, size, time and inode of every file of a model."""
    files = [each for folder in folders for each in sorted(folder.iterdir()) if each.is_file()]
    stats = [(str(each.resolve()), each.stat()) for each in files]
    return short_hash(str([(p, s.st_size, s.st_mtime_ns, s.st_ino) for p, s in stats]), 32)


def _state(model: PreTrainedModel) -> object:
    """What changes whenever a weight is replaced or written; None if that can't be told."""
    try:
        weights = (*model.named_parameters(), *model.named_buffers())
        return [(name, id(each), each.data_ptr(), each._version) for name, each in weights]
    except RuntimeError:  # tensors of inference mode and on no device
        return None


def _modules(model: PreTrainedModel) -> str:
    """What runs in a model: classes, functions in place of theirs, and forms of weights."""
    found = [
        (path, _place(type(each)), _place(type(each).forward), "forward" in vars(each))
        + tuple(len(vars(each)[hooks]) for hooks in _HOOKS)
        for path, each in model.named_modules()
    ]
    weights = [(name, str(each.dtype), [*each.shape]) for name, each in model.named_parameters()]
    return short_hash(str((found, weights)), 32)


def _place(what: Any) -> str:
    return f"{getattr(what, '__module__', '')}.{getattr(what, '__qualname__', type(what).__name__)}"


@cache
def _code() -> str:
    """A hash of the code that makes the check."""
    digest, package = hashlib.sha256(), Path(__file__).parents[1]
    for folder in ("core", "models", "tap"):
        for file in sorted((package / folder).rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()


_CPUS = Path("/proc/cpuinfo")


@cache
def processor() -> str:
    """The name of the CPU, as the system reports it."""
    lines = _CPUS.read_text(encoding="utf-8").splitlines() if _CPUS.exists() else []
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
