"""Typed fields: dataclasses to the JSON of a run folder and back, every field checked.

A field's type says what its JSON must be: `int`, `str`, `bool`, `float` (null is NaN), `Any`,
`tuple[T, ...]`, `Mapping[str, T]`, `T | None` or another dataclass. Fields that a newer version
added are ignored.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Never, TypeVar, final, get_args, get_origin, get_type_hints

from headcount.core import InputError, write_json

T = TypeVar("T")

VERSION = 1
"""The version of the formats; a file without `version` has it."""

_NAMES = {int: "an integer", float: "a number", str: "a text", bool: "true or false"}


def optional(default: Any) -> Any:
    """A field that its file leaves out while it has its default."""
    return field(default=default, metadata={"optional": True})


def encoded(value: Any) -> Any:
    """The JSON of a record: objects for dataclasses, lists for tuples, null for NaN."""
    if is_dataclass(value):
        kept = [each for each in fields(value) if not _is_left_out(each, value)]
        return {each.name: encoded(getattr(value, each.name)) for each in kept}
    if isinstance(value, Mapping):
        return {name: encoded(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [encoded(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _is_left_out(each: Field, record: Any) -> bool:
    return bool(each.metadata.get("optional")) and getattr(record, each.name) == each.default


@final
@dataclass(frozen=True)
class JsonFile:
    """A JSON file of a run folder, and the command that writes it."""

    path: Path
    command: str
    """Command that writes the file, e.g. `headcount analyze`."""

    @property
    def advice(self) -> str:
        """What to do about a damaged file."""
        return f"Run `{self.command}` again."

    def read(self) -> dict[str, Any]:
        """The JSON object in the file.

        Raises:
            InputError: if there is no such file, or it is damaged or of a newer version.
        """
        try:
            value = json.loads(self.path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(
                f"Cannot read {self.path}: {error.strerror}. Is this a run folder?"
            ) from error
        except ValueError as error:
            raise InputError(f"{self.path} is damaged: {error}. {self.advice}") from error
        return self.checked(value)

    def write(self, value: Any) -> None:
        """Write a record, completely or not at all."""
        write_json(self.path, encoded(value))

    def checked(self, value: Any) -> dict[str, Any]:
        """The value, if it is an object of a version that can be read.

        Raises:
            InputError: otherwise.
        """
        if not isinstance(value, dict):
            self.refuse("the contents", "an object", value)
        version = value.get("version", VERSION)
        if version != VERSION:
            raise InputError(
                f"Expected version {VERSION} in {self.path}, got {version!r}. Use the version of "
                f"headcount that wrote it, or run `{self.command}` again."
            )
        return value

    def decode(self, kind: type[T], value: Any, place: str = "") -> T:
        """A dataclass from its JSON.

        Args:
            kind: the dataclass.
            value: the JSON.
            place: the field's name in messages, e.g. `counts`; empty for all of the file.

        Raises:
            InputError: if a field is missing or has another type.
        """
        return self._record(kind, value, place)

    def refuse(self, place: str, expected: str, value: Any) -> Never:
        """Raise the error about one field.

        Raises:
            InputError: always.
        """
        shown = repr(value)
        shown = f"{shown[:80]} ..." if len(shown) > 90 else shown
        raise InputError(
            f"Expected {place} in {self.path} to be {expected}, got {shown}. {self.advice}"
        )

    def _record(self, kind: Any, value: Any, place: str) -> Any:
        if not isinstance(value, dict):
            self.refuse(place or "the contents", "an object", value)
        hints, found = get_type_hints(kind), {}
        for each in fields(kind):
            name = f"{place}.{each.name}" if place else each.name
            if each.name in value:
                found[each.name] = self._value(hints[each.name], value[each.name], name)
            elif each.default is MISSING and each.default_factory is MISSING:
                raise InputError(f"Expected {name} in {self.path}, got none. {self.advice}")
        try:
            return kind(**found)
        except InputError:
            raise
        except ValueError as error:
            raise InputError(
                f"{self.path} is damaged: {place or 'the contents'}: {error}. {self.advice}"
            ) from error

    def _value(self, kind: Any, value: Any, place: str) -> Any:
        if is_dataclass(kind):
            return self._record(kind, value, place)
        origin, inner = get_origin(kind), get_args(kind)
        if origin is UnionType:
            (kind,) = (each for each in inner if each is not NoneType)
            return None if value is None else self._value(kind, value, place)
        if origin is tuple:
            if not isinstance(value, list):
                self.refuse(place, "a list", value)
            return tuple(
                self._value(inner[0], each, f"{place}[{number}]")
                for number, each in enumerate(value)
            )
        if origin is Mapping:
            if not isinstance(value, dict):
                self.refuse(place, "an object", value)
            return {n: self._value(inner[1], each, f"{place}.{n}") for n, each in value.items()}
        return value if kind is Any else self._scalar(kind, value, place)

    def _scalar(self, kind: Any, value: Any, place: str) -> Any:
        if kind is float and value is None:
            return math.nan
        allowed = (int, float) if kind is float else kind
        is_wrong_bool = isinstance(value, bool) and kind is not bool
        if is_wrong_bool or not isinstance(value, allowed):
            self.refuse(place, _NAMES[kind], value)
        return kind(value)
