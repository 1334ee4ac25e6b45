"""Plug-ins: code of others that a process may load, where it is from, and what is said if it fails.

The environment variable `HEADCOUNT_PLUGINS` lists them all, separated as paths are: files
(`my.py`), names of installed packages, and `installed` for every installed package that has entry
points for headcount. It is `installed` by default; if it is empty, no plug-in is loaded. The
command's `--plugin` adds to the variable and `--no-plugins` empties it, so that worker processes
load the same plug-ins. No model, data, run folder or page can add to it.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, final

from headcount import __version__
from headcount.core.errors import InputError

API = "1.0"
"""The API that plug-ins are written for; a change that breaks them raises the first number."""

CHANGES: Mapping[int, str] = {1: "It is the first."}
"""What changed with each first number of the API, in a sentence; the last is the current one."""

SUPPORTED = (1,)
"""First numbers of the API whose plug-ins run."""

VARIABLE, INSTALLED = "HEADCOUNT_PLUGINS", "installed"


class PluginError(InputError):
    """A plug-in can't be loaded, or does not do what it should; the message names it."""


class PluginWarning(UserWarning):
    """A plug-in is left out; the message names it."""


@final
@dataclass(frozen=True)
class Origin:
    """Where something is from: headcount, an installed package, a file, or a module."""

    name: str
    version: str = ""
    """Version of a package; the first digits of a file's hash."""

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()


OURS = Origin("headcount", __version__)
"""Origin of what headcount brings."""

_loading: ContextVar[Origin | None] = ContextVar("loading", default=None)
_loaded = set[str]()


@contextmanager
def guarded(origin: Origin, expected: str) -> Iterator[None]:
    """Turn whatever a plug-in raises, or its exit, into a sentence that names it.

    Args:
        origin: Where the code is from. What is our own raises its own errors.
        expected: What it should do, as in "Expected the plug-in my.py to be imported".

    Raises:
        PluginError: If the plug-in raises or exits.
    """
    try:
        yield
    except (Exception, SystemExit) as error:
        if origin == OURS or isinstance(error, PluginError):
            raise
        what = f"{type(error).__name__}: {error}".removesuffix(".").removesuffix(": ")
        raise PluginError(
            f"Expected the plug-in {origin} {expected}, got {what}{_line(error)}. Repair it, or "
            "leave it out."
        ) from error


def _line(error: BaseException) -> str:
    """Where an error was raised, in the innermost frame that is neither ours nor a library's."""
    trace, found = error.__traceback__, ""
    while trace is not None:
        path = Path(trace.tb_frame.f_code.co_filename)
        if "headcount" not in path.parts and "site-packages" not in path.parts and path.exists():
            found = f" ({path.name}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return found


def listed() -> tuple[str, ...]:
    """The plug-ins that this process may load: files, names of packages, or `installed`."""
    return tuple(filter(None, os.environ.get(VARIABLE, INSTALLED).split(os.pathsep)))


def is_file(plugin: str) -> bool:
    """Whether a plug-in is named by its file."""
    return plugin.endswith(".py") or os.sep in plugin


@lru_cache(maxsize=1)
def _entries(path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """The entry points for headcount of all packages on a path."""
    del path
    every = entry_points()
    groups = [each for each in every.groups if each.startswith("headcount.")]
    found = [each for group in groups for each in every.select(group=group)]
    return tuple(sorted(found, key=lambda each: (origin_of(each).name, each.name)))


def entries(family: str) -> Iterator[EntryPoint]:
    """The entry points for a family of the packages that may be loaded; none is imported."""
    if names := {each for each in listed() if not is_file(each)}:
        for each in _entries(tuple(sys.path)):
            if each.group == f"headcount.{family}" and names & {INSTALLED, origin_of(each).name}:
                yield each


def origin_of(entry: EntryPoint) -> Origin:
    """The package of an entry point, with its version."""
    assert entry.dist is not None
    return Origin(entry.dist.name, entry.dist.version)


def origin_of_module(module: str) -> Origin:
    """The origin of what a module registers: the file that is being loaded, or the module."""
    version = getattr(sys.modules.get(module), "__version__", "")
    return _loading.get() or Origin(module, str(version))


def loaded_entry(entry: EntryPoint) -> Any:
    """The object of an entry point, whose module is imported.

    Raises:
        PluginError: If that fails, or the package is written for another API.
    """
    with guarded(origin_of(entry), "to be imported"):
        found = entry.load()
    check_api(origin_of(entry), entry.module)
    return found


def load_files() -> None:
    """Run the files among the plug-ins that this process may load, each once.

    Raises:
        PluginError: If one fails.
    """
    for each in filter(is_file, listed()):
        if each not in _loaded:
            _loaded.add(each)
            _load_file(Path(each))


def _load_file(path: Path) -> None:
    """Run a plug-in's file, which registers things.

    Raises:
        PluginError: If it does not exist or fails, or is written for another API.
    """
    if not path.is_file():
        raise PluginError(f"Expected a plug-in's file, got {path}, which does not exist.")
    version = sha256(path.read_bytes()).hexdigest()[:8]
    origin, name = Origin(path.name, version), f"headcount_plugin_{path.stem}_{version}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PluginError(f"Expected a plug-in's file with Python code, got {path}.")
    sys.modules[name] = module = module_from_spec(spec)
    token = _loading.set(origin)
    try:
        with guarded(origin, "to be imported"):
            spec.loader.exec_module(module)
    finally:
        _loading.reset(token)
    check_api(origin, name)


def check_api(origin: Origin, module: str) -> None:
    """Check the API that a plug-in's module, or a package around it, declares; 1.0 if none does.

    Raises:
        PluginError: If this version of headcount does not support it; the error says what changed.
    """
    parts = module.split(".")
    around = [sys.modules.get(".".join(parts[:number])) for number in range(len(parts), 0, -1)]
    declared = next(
        (str(vars(each)["API"]) for each in around if each and "API" in vars(each)), "1.0"
    )
    number = int(declared.partition(".")[0]) if declared.partition(".")[0].isdigit() else 0
    if number not in SUPPORTED:
        later = [text for key, text in CHANGES.items() if key > number]
        why = (
            " ".join(later) if number in CHANGES else "This version of headcount does not know it."
        )
        raise PluginError(
            f"Expected a plug-in for the API {API}, got {origin}, which is written for "
            f"{declared}. {why} Install another version of the plug-in or of headcount."
        )
