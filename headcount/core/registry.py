"""Registry: the things of one family by name, those that headcount brings and those of plug-ins.

A family lists its own things once, as text, so that nothing is imported before it is used. Its base
class says where that list is:

    class Score:
        registry: ClassVar[str] = "headcount.importance.options:SCORES"
        name: ClassVar[str]

    SCORES: Registry[type[Score]] = Registry(
        "scores", "a score", {"norm": "headcount.importance.norm_score:NormScore"}
    )

`SCORES["norm"]` imports and returns the class, `SCORES.find(given)` takes what a user gave (a name,
or the thing itself), and `SCORES.names()` is what `--help`, completion and errors list. Things are
classes or instances. Plug-ins add theirs in three ways:

    [project.entry-points."headcount.scores"]       # an installed package
    mine = "package.module:Mine"

    @headcount.register                             # a file for --plugin, a script, a notebook
    class Mine(Score): ...

    assess(..., methods=[Mine()])                   # the thing itself, where a name is taken
"""

import sys
import warnings
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import Any, Generic, TypeVar, final

from headcount.core.errors import InputError
from headcount.core.guarding import OURS, REPAIR, Origin, PluginError, PluginWarning
from headcount.core.options import check_known
from headcount.core.plugins import entries, load_plugins, loaded_entry, origin_of, origin_of_module

Thing = TypeVar("Thing")


@final
class Registry(Generic[Thing]):
    """The things of one family by name.

    Args:
        family: Name of the family. The entry points of packages have it in their group, as above.
        noun: What one is called in errors, with an article.
        own: What headcount brings, in its order: "module:attribute" by name.
    """

    def __init__(self, family: str, noun: str, own: Mapping[str, str]) -> None:
        self.family, self.noun, self.own = family, noun, own
        self._given: dict[str, tuple[Thing, Origin]] = {}

    def names(self) -> tuple[str, ...]:
        """All names: our own, those of packages, and those of files and what was registered."""
        load_plugins()
        return (*self.own, *self._entries(), *self._given)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in self.names()

    def __getitem__(self, name: str) -> Thing:
        """The thing of a name, imported now.

        Raises:
            InputError: If there is none; the error lists all.
            PluginError: If a plug-in can't be imported, or has something else under this name.
        """
        known = self.names()
        if not known:
            raise InputError(
                f"Expected {self.noun} that a plug-in brings, got {name!r}, and no plug-in brings "
                "any. Name its file (--plugin FILE), or install it."
            )
        check_known(self.noun, name, known, "(one of {})")
        if name in self.own:
            return imported(self.own[name])
        if name in self._given:
            return self._given[name][0]
        entry = self._entries()[name]
        thing = loaded_entry(entry)
        if not self._has(thing) or getattr(thing, "name", None) != name:
            raise PluginError(
                f"Expected {self.noun} called {name} in {origin_of(entry)}, got {thing!r}. Repair "
                "the plug-in's entry point."
            )
        self._check_whole(thing)
        return thing

    def find(self, given: str | Thing) -> Thing:
        """What a user gave: the thing of a name, or the thing itself.

        Raises:
            InputError: If there is no such name, or it is no thing of this family.
        """
        if isinstance(given, str):
            return self[given]
        if not self._has(given):
            raise InputError(f"Expected {self.noun}, or the name of one, got {given!r}.")
        self._check_whole(given)
        return given

    def usable(self) -> Iterator[Thing]:
        """Every thing that can be imported, in order; a warning names each that can't."""
        for name in self:
            try:
                yield self[name]
            except PluginError as error:
                warnings.warn(str(error), PluginWarning, stacklevel=2)

    def origin(self, given: Any) -> Origin:
        """Where a thing, its class, or the thing of a name is from; a name imports nothing."""
        name = given if isinstance(given, str) else given.name
        kind = given if isinstance(given, str | type) else type(given)
        if name != given and (name not in self or self[name] not in (given, kind)):
            return origin_of_module(kind.__module__)
        if name in self._given:
            return self._given[name][1]
        return OURS if name in self.own else origin_of(self._entries()[name])

    def origin_of(self, thing: Any) -> Origin:
        """Where a thing is from, whether it was registered or given by itself."""
        name = getattr(thing, "name", "")
        is_given = name in self._given and self._given[name][0] is thing
        is_ours = not is_given and name in self and self[name] is thing
        return self.origin(name) if is_given or is_ours else origin_of_module(thing.__module__)

    def add(self, thing: Any) -> None:
        """Add a thing under its name, in place of one from the same place in the code.

        One that an installed package names as an entry point is there already.

        Raises:
            PluginError: If another has its name; says where both are from.
        """
        if self._is_entry(thing):
            return
        name, origin = thing.name, origin_of_module(thing.__module__)
        self._check_whole(thing)
        is_nowhere = origin == OURS  # an object of a class of ours does not say where it was made
        origin = Origin(name) if is_nowhere else origin
        before, first = self._given.get(name, (None, origin))
        is_again = before is not None and _place(before) == _place(thing)
        is_object = not issubclass(type(thing), type)  # its class may be ours, as others' are
        is_same = first == origin and (is_nowhere or before == thing)
        is_again = is_again and (is_same or not is_object)
        if name in self and not is_again:
            raise PluginError(f"{self._taken(name, origin)} Choose another name.")
        self._given[name] = thing, origin

    def _check_whole(self, thing: Any) -> None:
        """Check that a class defines what its family asks for.

        Raises:
            PluginError: If it does not; says what it lacks.
        """
        if lacking := sorted(getattr(thing, "__abstractmethods__", ())):
            origin = origin_of_module(thing.__module__)
            raise PluginError(
                f"Expected {self.noun} that defines {' and '.join(lacking)}, got {thing.__name__} "
                f"of {origin}, which does not. {REPAIR}"
            )

    def remove(self, name: str) -> None:
        """Take back `add`, as a test does."""
        del self._given[name]

    def _is_entry(self, thing: Any) -> bool:
        """Whether an entry point is of a thing's name, and of the module that defines it."""
        entry = self._entries().get(thing.name)
        module = None if entry is None else sys.modules.get(entry.module)
        if entry is None or module is None:
            return False
        is_running = getattr(module.__spec__, "_initializing", False)
        return is_running or thing.__module__ == entry.module

    def _has(self, thing: Any) -> bool:
        place = getattr(thing, "registry", None)
        return isinstance(place, str) and imported(place) is self

    def _entries(self) -> dict[str, EntryPoint]:
        """The entry points of installed packages; one whose name exists is left out."""
        found: dict[str, EntryPoint] = {}
        for entry in entries(self.family):
            if entry.name in self.own or entry.name in found:
                first = origin_of(found[entry.name]) if entry.name in found else OURS
                text = f"{self._taken(entry.name, origin_of(entry), first)} It is left out."
                warnings.warn(text, PluginWarning, stacklevel=3)
            else:
                found[entry.name] = entry
        return found

    def _taken(self, name: str, second: Origin, first: Origin | None = None) -> str:
        first = first or self.origin(name)
        return f"Expected a new name for {self.noun} of {second}, got {name}, which {first} has."


def register(thing: Thing) -> Thing:
    """Add something of one's own to its family, under its name; also as a decorator.

    >>> import headcount
    >>> @headcount.register  # doctest: +SKIP
    ... class Mine(headcount.importance.Score): ...

    Raises:
        InputError: If it belongs to no family or has no name, or the name exists.
    """
    place, name = getattr(thing, "registry", None), getattr(thing, "name", None)
    if not isinstance(place, str):
        raise InputError(
            "Expected something whose class is derived from one of headcount, such as "
            f"headcount.importance.Score, got {thing!r}. Derive it."
        )
    if not (isinstance(name, str) and name):
        raise InputError(f"Expected a name of {thing!r}, got none. Write one: name = ...")
    imported(place).add(thing)
    return thing


def imported(place: str) -> Any:
    """The object at "module:attribute", whose module is imported."""
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


def _place(thing: object) -> tuple[str, str]:
    """Module and name of a class, or of an instance's class."""
    kind = thing if isinstance(thing, type) else type(thing)
    return kind.__module__, kind.__qualname__
