"""Names that have moved: found at their old places for one release, with a warning."""

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def moved(module: str, homes: Mapping[str, str], own: Callable[[str], Any]) -> Callable[[str], Any]:
    """The `__getattr__` of a module with names that are elsewhere now.

    Args:
        module: Name of the module.
        homes: The names by the package of headcount that has them now, separated by blanks.
        own: Finds the names that are still its own.
    """
    places = {name: home for home, names in homes.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in places:
            return own(name)
        home = f"headcount.{places[name]}"
        text = f"{module}.{name} is {home}.{name} now; the old name goes with the next release."
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return getattr(import_module(home), name)

    return find
