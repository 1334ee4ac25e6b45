"""Unit files: results of units that are large, such as sums and tables, each in its own file."""

import warnings
from collections.abc import Callable, Iterator
from glob import escape
from pathlib import Path
from typing import Generic, TypeVar, final

from headcount.core.errors import InputError
from headcount.core.files import START_AGAIN
from headcount.core.units import OtherRunError

T = TypeVar("T")


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
