"""Plug-ins: code of others that a process may load, and where it is from.

The environment variable `HEADCOUNT_PLUGINS` lists them all, separated as paths are: files
(`my.py`), names of installed packages, and `installed` for every installed package that has entry
points for headcount. It is `installed` by default; if it is empty, no plug-in is loaded. The
command's `--plugin` adds to the variable and `--no-plugins` empties it, so that worker processes
load the same plug-ins. No model, data, run folder or page can add to it.
"""

import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from importlib.metadata import Distribution, EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import TracebackType
from typing import Any

from headcount.core.files import short_hash
from headcount.core.guarding import (
    OURS,
    REPAIR,
    Origin,
    PluginError,
    PluginWarning,
    guarded,
    what_failed,
)

API = "1.0"
"""The API that plug-ins are written for; a change that breaks them raises the first number."""

CHANGES: Mapping[int, str] = {1: "It is the first."}
"""What changed with each first number of the API, in a sentence; the last is the current one."""

SUPPORTED = (1,)
"""First numbers of the API whose plug-ins run."""

VARIABLE, INSTALLED = "HEADCOUNT_PLUGINS", "installed"


_loading: ContextVar[Origin | None] = ContextVar("loading", default=None)
"""The plug-in that is being loaded."""
_files: dict[str, Origin | None] = {}
"""What was loaded, by how it is listed."""
_modules: dict[str, Origin] = {}
"""The files that were run, by the names that their modules have."""


def listed() -> tuple[str, ...]:
    """The plug-ins that this process may load: files, names of packages, or `installed`."""
    return tuple(filter(None, os.environ.get(VARIABLE, INSTALLED).split(os.pathsep)))


@contextmanager
def listing(named: Sequence[str], only: bool = False) -> Iterator[None]:
    """List further plug-ins for this process and those that it starts.

    Args:
        named: Files, or names of installed packages.
        only: Whether no others are listed.
    """
    before = os.environ.get(VARIABLE)
    places = [str(Path(each).absolute()) if is_file(each) else each for each in named]
    os.environ[VARIABLE] = os.pathsep.join([*(() if only else listed()), *places])
    try:
        yield
    finally:
        os.environ.pop(VARIABLE)
        os.environ.update({} if before is None else {VARIABLE: before})


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


def entries(family: str = "") -> tuple[EntryPoint, ...]:
    """The entry points of the packages that are listed, of one family or all; none is imported."""
    if not (names := {each for each in listed() if not is_file(each)}):
        return ()
    return tuple(
        each
        for each in _entries(tuple(sys.path))
        if each.group.endswith(f".{family}" if family else "")
        and names & {INSTALLED, origin_of(each).name}
    )


def packages() -> tuple[Origin, ...]:
    """The packages that are listed, of which some entry point is for headcount."""
    return tuple(dict.fromkeys(map(origin_of, entries())))


def origin_of(entry: EntryPoint) -> Origin:
    """The package of an entry point, with its version."""
    assert entry.dist is not None
    return _package(entry.dist)


@cache
def _package(found: Distribution) -> Origin:
    """A package with its version, whose metadata, a whole README, are read once."""
    about = found.metadata
    return Origin(about["Name"], about["Version"])


def origin_of_module(module: str) -> Origin:
    """The origin of what a module registers: the file that is, or was, loaded, or the module."""
    if (loading := _loading.get()) is not None:
        return loading
    if module in _modules:
        return _modules[module]
    version = getattr(sys.modules.get(module), "__version__", "")
    return OURS if module.partition(".")[0] == OURS.name else Origin(module, str(version))


def loaded_entry(entry: EntryPoint) -> Any:
    """The object of an entry point, whose module is imported.

    Raises:
        PluginError: If that fails, or the package is written for another API.
    """
    with guarded(origin_of(entry), "be imported"):
        found = entry.load()
    check_api(origin_of(entry), entry.module)
    return found


def load_plugins() -> None:
    """Run the files among the plug-ins that are listed, each once, and look for the packages.

    Raises:
        PluginError: If a file does not exist or fails, or a package is not installed.
    """
    names = [each for each in listed() if not is_file(each) and each != INSTALLED]
    if names and (lost := set(names) - {each.name for each in packages()}):
        raise PluginError(
            "Expected a file (my.py) or an installed package that has entry points for headcount, "
            f"got {lost.pop()}. Install it, or leave it out."
        )
    for each in filter(is_file, listed()):
        if each not in _files:
            _files[each] = None  # while it runs, it may look for names itself
            try:
                _files[each] = _load_file(Path(each))
            except PluginError:
                del _files[each]
                raise


def origins() -> tuple[Origin, ...]:
    """The packages that are listed, and the files that were run."""
    return (*packages(), *(each for place, each in _files.items() if place in listed() and each))


def origin_named(plugin: str) -> Origin:
    """The origin of a plug-in that is listed: a file, which is run, or an installed package.

    Raises:
        PluginError: If it does not exist, or the file fails.
    """
    load_plugins()
    if is_file(plugin):
        place = str(Path(plugin).absolute())
        return next(each for path, each in _files.items() if path == place and each)
    return next(each for each in packages() if each.name == plugin)


def blamed(error: BaseException) -> PluginError | None:
    """The error that a plug-in failed, if another error came through its code unguarded."""
    tops = {each.module.partition(".")[0]: origin_of(each) for each in entries()}
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__"))
        if (origin := _modules.get(module) or tops.get(module.partition(".")[0])) is not None:
            what = what_failed(error.with_traceback(trace))
            return PluginError(f"Expected the plug-in {origin} to work, got {what}. {REPAIR}")
        trace = trace.tb_next
    return None


def signed_origins(found: Iterable[Origin]) -> str | None:
    """The plug-ins among some origins, as a part of a signature; None without any."""
    names = dict.fromkeys(f"{each.name}@{each.version}" for each in found if each != OURS)
    return ",".join(names) or None


def _load_file(path: Path) -> Origin:
    """Run a plug-in's file, which registers things.

    Raises:
        PluginError: If it does not exist or fails, or is written for another API.
    """
    name = f"headcount_plugin_{short_hash(str(path), 8)}_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        what = "is another kind of file" if path.is_file() else "does not exist"
        raise PluginError(f"Expected a plug-in's file (my.py), got {path}, which {what}.")
    origin = Origin(path.name, short_hash(path.read_bytes(), 8))
    sys.modules[name] = module = module_from_spec(spec)
    _modules[name] = origin
    token = _loading.set(origin)
    try:
        with guarded(origin, "be imported"):
            spec.loader.exec_module(module)
        check_api(origin, name)
    finally:
        _loading.reset(token)
    return origin


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
    later = " ".join(text for key, text in CHANGES.items() if key > number)
    why = later if number in CHANGES else "This version of headcount does not know it."
    text = f"{origin}, which is written for {declared}. {why}"
    if number not in SUPPORTED:
        raise PluginError(
            f"Expected a plug-in for the API {API}, got {text} Install another version of the "
            "plug-in or of headcount."
        )
    if later:
        warnings.warn(
            f"the API is {API}, and the next version of headcount may refuse {text}",
            PluginWarning,
            stacklevel=3,
        )
