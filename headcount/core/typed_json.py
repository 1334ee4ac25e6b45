"""JSON by types: a dataclass is written as it is, and read with a check of every field.

A type says what its JSON must be: `int`, `str`, `bool`, `float` (null is NaN), `Any`, `bytes` (as
Base64), `Head` (its name), `tuple[T, ...]`, `Mapping[str, T]`, `Mapping[int, T]`,
`Mapping[Head, T]`, `T | None`, a dataclass, or `JsonObject` for an object to read by hand. `stored`
and `OwnJson` say how a layout differs from that of the fields. Fields that a newer version added
are ignored.
"""

import json
import math
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, final, get_args, get_origin, get_type_hints

from headcount.core.errors import InputError
from headcount.core.files import parse_json, reason
from headcount.core.heads import Head, is_number
from headcount.core.options import default_of

T = TypeVar("T")

Kind = Callable[..., T]
"""A type of JSON; `type[T]` would not include `tuple[int, ...]`."""

VERSION = 1
"""The version of the formats; a file without `version` has it."""

_WORDS = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number or null",
    tuple: "a list",
    Mapping: "an object",
}


def omitted(default: Any) -> Any:
    """A field that its file leaves out while it has its default."""
    return field(default=default, metadata={"omitted": True})


def stored(name: str = "", *, flat: tuple[str, ...] | None = None, **more: Any) -> Any:
    """A field that its file holds in another way than under its own name.

    Args:
        name: the name in the file.
        flat: for a dataclass or a mapping whose fields lie among those of the record: the names by
            which they are known, of which there may be none if the field has a default. Without
            names, a mapping has all that the record does not declare.
        more: `default` or `default_factory`, with which the file leaves the field out.
    """
    facts = {"name": name} if name else {"flat": flat}
    return field(metadata=facts | ({"omitted": True} if more else {}), **more)


class OwnJson(ABC):
    """A dataclass that files hold in another layout than that of its fields."""

    @abstractmethod
    def to_json(self) -> Any:
        """What the file holds: other dataclasses, or JSON."""

    @classmethod
    @abstractmethod
    def from_json(cls, found: "JsonObject") -> Any:
        """What an object of a file says.

        Raises:
            InputError: if a field is missing, or does not fit the others; the error names it.
        """


def encoded(value: Any) -> Any:
    """The JSON of a record: objects for dataclasses, lists for tuples, null for NaN and infinity.

    >>> encoded({"p": (0.5, math.nan), "head": Head("encoder.self", 3, 7)})
    {'p': [0.5, None], 'head': 'enc.3.7'}
    """
    if isinstance(value, Head):
        return str(value)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, OwnJson):
        return encoded(value.to_json())
    if is_dataclass(value):
        found = dict[str, Any]()
        for each in fields(value):
            part = encoded(getattr(value, each.name))
            if "flat" in each.metadata:
                found |= part or {}
            elif not each.metadata.get("omitted") or getattr(value, each.name) != default_of(each):
                found[_name(each)] = part
        return found
    if isinstance(value, Mapping):
        return {str(name): encoded(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [encoded(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _name(each: Field) -> str:
    """The name of a field in its file."""
    return each.metadata.get("name", each.name)


@final
@dataclass(frozen=True)
class JsonObject:
    """A JSON object; a field of another type than expected raises an error that names it."""

    values: Mapping[str, Any]
    """Values by field."""
    file: str
    """The file that holds the object, for errors."""
    advice: str
    """What to do about a damaged file, e.g. which command to run again."""
    place: str = ""
    """The object's place in the file, e.g. `dev.loss`, for errors; empty for the entire file."""

    @classmethod
    def read(cls, path: Path, command: str, folder: str = "a run folder") -> "JsonObject":
        """The object in a file.

        Args:
            path: the file.
            command: the command that writes it.
            folder: the kind of folder that has such a file, for errors.

        Raises:
            InputError: if there is no such file, or it is damaged or of a newer version.
        """
        try:
            value = parse_json(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(
                f"Expected {folder}, but {path} can't be read: {error.strerror}. Check the path."
            ) from error
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{path} is damaged: {reason(error)}. Run `{command}` again."
            ) from error
        return cls.of(value, str(path), command)

    @classmethod
    def of(cls, value: Any, file: str, command: str) -> "JsonObject":
        """The object that is all of a file.

        Raises:
            InputError: if the value is no object, or of another version.
        """
        advice = f"Run `{command}` again."
        if not isinstance(value, Mapping):
            raise cls({}, file, advice).error("the contents", _WORDS[Mapping], value)
        version = value.get("version", VERSION)
        if type(version) is not int or version != VERSION:  # True is no version
            raise InputError(
                f"Expected version {VERSION} in {file}, got {version!r}. Use the version of "
                f"headcount that wrote it, or run `{command}` again."
            )
        return cls(value, file, advice)

    def __contains__(self, name: str) -> bool:
        """Whether the object has a field that is not null."""
        return self.values.get(name) is not None

    def field(self, name: str, kind: Kind[T]) -> T:
        """The value of a field.

        Args:
            name: the field.
            kind: its type, as the field of a record could have it.

        Raises:
            InputError: if the field is missing or has another type.
        """
        return self._field(name, kind)

    def optional(self, name: str, kind: Kind[T]) -> T | None:
        """The value of a field; None if the field is absent or null."""
        return self.field(name, kind) if name in self else None

    def decode(self, kind: type[T]) -> T:
        """The record in the object.

        Args:
            kind: the dataclass of the record.

        Raises:
            InputError: if a field is missing or has another type.
        """
        return self._object(kind)

    def error(self, place: str, expected: str, value: Any) -> InputError:
        """The error that a value is not what was expected."""
        shown = json.dumps(value, ensure_ascii=False, default=repr)
        shown = f"{shown[:80]} ..." if len(shown) > 90 else shown
        return InputError(
            f"Expected {place} in {self.file} to be {expected}, got {shown}. {self.advice}"
        )

    def damaged(self, why: ValueError) -> InputError:
        """The error that fields do not fit each other."""
        return InputError(
            f"{self.file} is damaged: {self.place or 'the contents'}: {why}. {self.advice}"
        )

    def _field(self, name: str, kind: Any) -> Any:
        place = f"{self.place}.{name}" if self.place else name
        if name not in self.values:
            raise InputError(f"Expected {place} in {self.file}, got none. {self.advice}")
        return self._value(kind, self.values[name], place)

    def _object(self, kind: Any) -> Any:
        return kind.from_json(self) if issubclass(kind, OwnJson) else self._record(kind)

    def _record(self, kind: Any) -> Any:
        hints, found = types_of(kind), {}
        for each in fields(kind):
            has_default = default_of(each) is not MISSING
            if "flat" in each.metadata:
                names = each.metadata["flat"]
                if not has_default or any(name in self for name in names):
                    own = {_name(other) for other in fields(kind)}
                    found[each.name] = self._flat(hints[each.name], names, own)
            elif _name(each) in self.values or not has_default:
                found[each.name] = self._field(_name(each), hints[each.name])
        try:
            return kind(**found)
        except InputError:
            raise
        except ValueError as error:
            raise self.damaged(error) from error

    def _flat(self, kind: Any, names: tuple[str, ...], own: set[str]) -> Any:
        """A dataclass or a mapping whose fields lie among those of its record, which are `own`."""
        if get_origin(kind) is UnionType:
            kind = get_args(kind)[0]
        if get_origin(kind) is not Mapping:
            return self._object(kind)
        there = [name for name in names if name in self]
        there = there if names else [name for name in self.values if name not in own]
        return {name: self._field(name, get_args(kind)[1]) for name in there}

    def _value(self, kind: Any, value: Any, place: str) -> Any:
        origin, inner = get_origin(kind), get_args(kind)
        if origin is UnionType:
            return self._either(inner, value, place)
        if kind is Any:
            return value
        if kind is Head:
            return self._head(value, place)
        if kind is bytes:
            return self._bytes(value, place)
        if kind is JsonObject or is_dataclass(kind):
            self._check(Mapping, dict, value, place)
            found = JsonObject(value, self.file, self.advice, place)
            return found if kind is JsonObject else found._object(kind)
        if origin is Literal:
            if value not in inner:
                raise self.error(place, f"one of {', '.join(map(repr, inner))}", value)
            return value
        if origin is tuple:
            self._check(tuple, list, value, place)
            if inner[-1] is not Ellipsis and len(inner) != len(value):
                raise self.error(place, f"a list of {len(inner)}", value)
            places = (f"{place}[{number}]" for number in range(len(value)))
            return tuple(map(self._value, inner[:1] * len(value), value, places))
        if origin is Mapping:
            self._check(Mapping, dict, value, place)
            named = {name: self._value(inner[1], value[name], f"{place}.{name}") for name in value}
            if inner[0] is Head:
                return {self._head(name, place): each for name, each in named.items()}
            return self._numbered(named, place) if inner[0] is int else named
        return self._scalar(kind, value, place)

    def _either(self, kinds: tuple[Any, ...], value: Any, place: str) -> Any:
        """A value that may be null, or one of two types, of which the last is an object's."""
        if value is None and NoneType in kinds:
            return None
        kinds = tuple(each for each in kinds if each is not NoneType)
        return self._value(kinds[-1] if isinstance(value, dict) else kinds[0], value, place)

    def _numbered(self, named: Mapping[str, Any], place: str) -> dict[int, Any]:
        """An object whose field names are whole numbers."""
        if any(not is_number(name) for name in named):
            raise self.error(place, "an object with whole numbers as names", named)
        return {int(name): each for name, each in named.items()}

    def _head(self, value: Any, place: str) -> Head:
        try:
            return Head.parse(value)
        except InputError as error:
            raise self.error(place, "a head such as enc.3.7", value) from error

    def _bytes(self, value: Any, place: str) -> bytes:
        try:
            return b64decode(value, validate=True)
        except (TypeError, ValueError) as error:
            raise self.error(place, "a text in Base64", value) from error

    def _scalar(self, kind: Any, value: Any, place: str) -> Any:
        if kind is float and value is None:
            return math.nan
        is_wrong_bool = isinstance(value, bool) and kind is not bool
        self._check(
            kind, () if is_wrong_bool else (int, float) if kind is float else kind, value, place
        )
        try:
            return kind(value)
        except OverflowError as error:  # a number with hundreds of digits
            raise self.error(place, _WORDS[kind], str(value)) from error

    def _check(self, kind: Any, allowed: Any, value: Any, place: str) -> None:
        if not isinstance(value, allowed):
            raise self.error(place, _WORDS[kind], value)


@cache
def types_of(kind: Any) -> dict[str, Any]:
    """The types of the fields of a record, which are looked up once for all records."""
    return get_type_hints(kind)
