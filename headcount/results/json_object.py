"""A JSON object of a result file, whose fields are read with a check of their type."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, final

from headcount.core import InputError

T = TypeVar("T")

_WORDS = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number or null",
    list: "a list",
    dict: "an object",
}


@final
@dataclass(frozen=True)
class JsonObject:
    """A JSON object; a field of another type than expected raises an error that names it."""

    values: Mapping[str, Any]
    """Values by field."""
    file: str
    """The file that holds the object, for errors."""
    place: str = ""
    """The object's place in the file, e.g. `dev.loss`, for errors; empty for the entire file."""

    @classmethod
    def read(cls, path: Path) -> "JsonObject":
        """Read a file that holds a JSON object.

        Raises:
            OSError: If there is no such file.
            ValueError: If it is not JSON.
            InputError: If it is not an object.
        """
        return cls.of(json.loads(path.read_text(encoding="utf-8")), str(path))

    @classmethod
    def of(cls, value: Any, file: str, place: str = "") -> "JsonObject":
        """Check that a value is a JSON object.

        Raises:
            InputError: If it is not.
        """
        if not isinstance(value, Mapping):
            raise _error(_WORDS[dict], place or "the contents", file, value)
        return cls(value, file, place)

    def __contains__(self, name: str) -> bool:
        """Whether the object has a field that is not null."""
        return self.values.get(name) is not None

    def text(self, name: str) -> str:
        """The text in a field."""
        return str(self._typed(name, str))

    def flag(self, name: str) -> bool:
        """The truth value in a field."""
        return bool(self._typed(name, bool))

    def whole(self, name: str) -> int:
        """The whole number in a field."""
        return int(self._typed(name, int))

    def number(self, name: str) -> float:
        """The number in a field; NaN for null."""
        value = self._given(name, _WORDS[float])
        if value is None:
            return math.nan
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _error(_WORDS[float], self._at(name), self.file, value)
        return float(value)

    def numbers(self, name: str) -> dict[str, float]:
        """The numbers of an object in a field, by name."""
        inner = self.inside(name)
        return {each: inner.number(each) for each in inner.values}

    def wholes(self, name: str) -> dict[str, int]:
        """The whole numbers of an object in a field, by name."""
        inner = self.inside(name)
        return {each: inner.whole(each) for each in inner.values}

    def flags(self, name: str) -> dict[str, bool]:
        """The truth values of an object in a field, by name."""
        inner = self.inside(name)
        return {each: inner.flag(each) for each in inner.values}

    def texts(self, name: str) -> tuple[str, ...]:
        """The texts of a list in a field."""
        return tuple(self._list(name, str))

    def all_wholes(self, name: str) -> tuple[int, ...]:
        """The whole numbers of a list in a field."""
        return tuple(self._list(name, int))

    def inside(self, name: str) -> "JsonObject":
        """The object in a field."""
        return JsonObject.of(self._typed(name, dict), self.file, self._at(name))

    def objects(self, name: str) -> "tuple[JsonObject, ...]":
        """The objects of a list in a field."""
        return tuple(
            JsonObject.of(each, self.file, f"{self._at(name)}.{number}")
            for number, each in enumerate(self._typed(name, list))
        )

    def mappings(self, name: str) -> tuple[Mapping[str, Any], ...]:
        """The objects of a list in a field, as they are."""
        return tuple(each.values for each in self.objects(name))

    def optional(self, name: str, read: Callable[[str], T]) -> T | None:
        """What a reader makes of a field; None if the field is absent or null."""
        return read(name) if name in self else None

    def error(self, expected: str, name: str) -> InputError:
        """The error that a field does not hold what was expected."""
        return _error(expected, self._at(name), self.file, self.values.get(name))

    def _list(self, name: str, kind: type) -> list[Any]:
        found = self._typed(name, list)
        for number, each in enumerate(found):
            if not _is(each, kind):
                raise _error(_WORDS[kind], f"{self._at(name)}.{number}", self.file, each)
        return found

    def _typed(self, name: str, kind: type) -> Any:
        value = self._given(name, _WORDS[kind])
        if not _is(value, kind):
            raise _error(_WORDS[kind], self._at(name), self.file, value)
        return value

    def _given(self, name: str, words: str) -> Any:
        if name not in self.values:
            raise InputError(
                f"Expected {words} as {self._at(name)} in {self.file}, got no such field. Make the "
                "file again."
            )
        return self.values[name]

    def _at(self, name: str) -> str:
        return f"{self.place}.{name}" if self.place else name


def _is(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _error(expected: str, place: str, file: str, value: Any) -> InputError:
    shown = json.dumps(value, ensure_ascii=False)
    shown = f"{shown[:60]}..." if len(shown) > 60 else shown
    return InputError(
        f"Expected {expected} as {place} in {file}, got {shown}. Make the file again."
    )
