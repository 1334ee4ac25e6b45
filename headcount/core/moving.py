"""Names that have moved or are retired: found for one release, with a warning."""

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Literal

from headcount.core.registry import Registry


def moved(
    module: str, homes: Mapping[str, str], own: Callable[[str], Any] | None = None
) -> Callable[[str], Any]:
    """The `__getattr__` of a module with names that are elsewhere now.

    Args:
        module: Name of the module.
        homes: The names by the package of headcount that has them now, separated by blanks.
        own: Finds the names that are still its own.
    """
    places = {name: home for home, names in homes.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in places and own is not None:
            return own(name)
        if name not in places:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home = f"headcount.{places[name]}"
        text = f"{module}.{name} is {home}.{name} now; the old name goes with the next release."
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return getattr(import_module(home), name)

    return find


def retired(
    module: str, names: Mapping[str, tuple[str, str]], own: Callable[[str], Any]
) -> Callable[[str], Any]:
    """The `__getattr__` of a module with names for which others of it are used now.

    Args:
        module: Name of the module.
        names: For each old name the present one, and what to do, in words. Where the present one is
            a registry, the old one was the type of its names.
        own: Finds the other names.
    """

    def find(name: str) -> Any:
        if name not in names:
            return own(name)
        present, advice = names[name]
        text = f"{module}.{name} goes with the next release. {advice}"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        found = own(present)
        return Literal[tuple(found)] if isinstance(found, Registry) else found

    return find
