"""Sharing: processes share the units of a run, whose results do not depend on who did what.

Each process says which units its disk holds, and the first that is free does the next of the
others. Results are read in the order of the units, so that the numbers are the same to the last
bit, however often a run was stopped, and with however many processes it resumed.

Unit files: results of units that are large, such as sums and tables, each in its own file.
"""

import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sized
from functools import partial
from glob import escape
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, final, runtime_checkable

from headcount.core.distributed import is_alone, own_unit, taken, told_by, told_by_all, told_once
from headcount.core.errors import InputError, OtherRunError
from headcount.core.files import START_AGAIN
from headcount.core.progress import Steps, paced

T = TypeVar("T")
R = TypeVar("R")
K = TypeVar("K", bound=Hashable)
Sum = TypeVar("Sum", bound=Any)


@runtime_checkable
class Held(Protocol[T]):
    """Results of units that this process holds, by the names of the units; a dict is one."""

    def __contains__(self, name: object, /) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __getitem__(self, name: str, /) -> T: ...
    def __setitem__(self, name: str, result: T, /) -> None: ...


def shared(
    units: Iterable[tuple[str, Callable[[], T]]],
    held: Held[T],
    after: Callable[[str], object] = lambda name: None,
) -> Iterator[tuple[str, T]]:
    """The names and results of all units in their order; what no process holds is done and held.

    Args:
        units: the name of each unit, and what does it; the same in all processes.
        held: what this process holds.
        after: called with the name of each unit that this process did.
    """

    def do(name: str, unit: Callable[[], T]) -> None:
        with own_unit():
            held[name] = unit()
        after(name)

    if is_alone():
        for name, unit in units:
            if name not in held:
                do(name, unit)
            yield name, held[name]
        return
    names, holders = list[str](), _holders(held)

    def missing() -> Iterator[tuple[str, Callable[[], T]]]:
        for name, unit in units:
            names.append(name)
            if name not in holders:
                yield name, unit

    for name, unit in taken(missing()):
        do(name, unit)
    holders = _holders(held)
    for name in names:
        yield name, told_by(holders[name], partial(held.__getitem__, name))


def _holders(held: Held[Any]) -> dict[str, int]:
    """The first process that holds each unit that is held anywhere."""
    every = [*enumerate(told_by_all([*held]))]
    return {name: process for process, names in reversed(every) for name in names}


def spread(
    do: Callable[[T], R], items: Iterable[T], what: str, steps: Steps | None = None
) -> Iterator[R]:
    """What is computed of each item, in their order; processes share the items.

    Args:
        do: what is computed of an item.
        items: the items, which all processes list in the same order.
        what: what they are, as a plural noun.
        steps: called with the number of results that were taken, and of all items.

    Raises:
        ConsentError: if they have a number and would take more than a day (see `progress.py`).
    """
    items = items if steps is None else [*items]
    units = ((str(number), partial(do, item)) for number, item in enumerate(items))
    if isinstance(items, Sized):
        units = paced(units, len(items), what)
    for number, (_, result) in enumerate(shared(units, Passing[R]()), start=1):
        yield result
        if steps is not None and isinstance(items, list):
            steps(number, len(items))


def tallied(count: Callable[[T], object], items: Iterable[T], own: R) -> list[R]:
    """What each process has counted of some items, of which it counts those that it takes.

    It is exchanged once, whatever the number of items, but in no order of theirs: it must be such
    that only sums over all processes are read.

    Args:
        count: counts an item in this process.
        items: all items, which all processes list in the same order.
        own: where this process counts.
    """
    for item in taken(items):
        with own_unit():
            count(item)
    return told_once(own)


def added(sums: Mapping[K, Sum], more: Mapping[K, Sum]) -> dict[K, Sum]:
    """The sums by key, with more of them; either may lack a key.

    >>> added({"a": 1, "b": 2}, {"b": 3, "c": 4})
    {'a': 1, 'b': 5, 'c': 4}
    """
    return {
        **sums,
        **{key: sums[key] + each if key in sums else each for key, each in more.items()},
    }


def by_one(do: Callable[[], R]) -> R:
    """What the first process that is free computes; the others wait for it without a limit."""
    (found,) = spread(lambda _: do(), (None,), "units")
    return found


@final
class Passing(dict[str, T], Generic[T]):
    """Results in memory that are read once, and then forgotten."""

    def __getitem__(self, name: str, /) -> T:
        return self.pop(name)


def sound(file: Path, read: Callable[[Path], T]) -> T | None:
    """What a file of a unit holds; None, with a warning, if it is damaged.

    Raises:
        OtherRunError: if it belongs to another run.
    """
    try:
        return read(file)
    except OtherRunError:
        raise
    except InputError as error:
        said = str(error).removesuffix(START_AGAIN)
        warnings.warn(f"{said}What it held is computed again.", stacklevel=2)
        return None


@final
class UnitFiles(Generic[T]):
    """Results of units, each in a file of its own, and read when it is asked for.

    Files that are damaged are reported, and their units are done again.

    Args:
        file: the name of all files, to which that of the unit is added.
        read: what a file holds.
        write: writes it.

    Raises:
        OtherRunError: if a file belongs to another run.
    """

    def __init__(
        self, file: Path, read: Callable[[Path], T], write: Callable[[Path, T], object]
    ) -> None:
        self._file, self._read, self._write = file, read, write
        self._names = dict.fromkeys(self._found())

    def place(self, name: str) -> Path:
        """The file of a unit."""
        return self._file.with_name(f"{self._file.stem}-{name}{self._file.suffix}")

    def _found(self) -> Iterator[str]:
        """The names of the units whose files can be read."""
        for path in sorted(
            self._file.parent.glob(f"{escape(self._file.stem)}-*{self._file.suffix}")
        ):
            if sound(path, self._read) is not None:
                yield path.stem.removeprefix(f"{self._file.stem}-")

    def __contains__(self, name: object, /) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter([*self._names])

    def __getitem__(self, name: str, /) -> T:
        return self._read(self.place(name))

    def __setitem__(self, name: str, result: T, /) -> None:
        self._write(self.place(name), result)
        self._names[name] = None
