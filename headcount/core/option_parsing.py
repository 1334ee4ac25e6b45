"""Options as text: NAME=VALUE, converted to the types that a constructor declares."""

import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from difflib import get_close_matches
from inspect import signature
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

from headcount.core.errors import InputError

Made = TypeVar("Made")
Changed = TypeVar("Changed")


def made(make: Callable[..., Made], options: Sequence[str]) -> Made:
    """Call a constructor with options given as text.

    Args:
        make: the constructor, with a default for every option.
        options: NAME=VALUE each, or NAME.FIELD=VALUE if an option has fields of its own.

    Raises:
        InputError: for an unknown option or an invalid value.
    """
    values: dict[str, Any] = {}
    for option in options:
        name, field, value = _read(option, option_types(make))
        if field:
            value = replace(values.get(name) or getattr(make(), name), **{field: value})
        values[name] = value
    return make(**values)


def check_options(types: Mapping[str, Any], options: Sequence[str]) -> None:
    """Check options given as text, without a call of the constructor that takes them.

    Args:
        types: type of each option; a dataclass has fields of its own.
        options: NAME=VALUE each, or NAME.FIELD=VALUE.

    Raises:
        InputError: for an unknown option, or a value of another type.
    """
    for option in options:
        _read(option, types)


def options_of(record: Any) -> list[str]:
    """The fields of a dataclass record that differ from their defaults, as `made` takes them.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Step:
    ...     size: float = 1.0
    ...     is_last: bool = False
    >>> options_of(Step(0.1))
    ['size=0.1']
    """
    return [
        f"{name}={'none' if value is None else str(value).lower()}"
        if value is None or isinstance(value, bool)
        else f"{name}={value}"
        for name, value in _differences(record)
    ]


def _differences(record: Any, usual: Any = None, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Name and value of every field that differs from a usual record's, or from its default."""
    for each in fields(record):
        value, default = getattr(record, each.name), _default(each)
        expected = default if usual is None else getattr(usual, each.name)
        if is_dataclass(value) and is_dataclass(expected):
            yield from _differences(value, expected, f"{prefix}{each.name}.")
        elif value != expected:
            yield f"{prefix}{each.name}", value


def _default(field: "Field[Any]") -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def changed(record: Changed, options: Sequence[str]) -> Changed:
    """Copy a frozen dataclass record with some fields changed.

    Args:
        record: the record, which is not modified.
        options: FIELD=VALUE each.

    Raises:
        InputError: for an unknown field or an invalid value.
    """
    types, values = option_types(type(record)), {}
    for option in options:
        name, equals, text = option.partition("=")
        if not equals or name not in types:
            raise _unknown(option, types)
        values[name] = _value(name, types[name], text)
    return replace(cast("Any", record), **values)


def check_seed(seed: int) -> None:
    """Check that a seed is valid.

    Raises:
        InputError: if it is negative.
    """
    if seed < 0:
        raise InputError(f"Expected a seed of at least 0, got {seed}.")


def check_choice(name: str, value: object, kind: Any) -> None:
    """Check that a value is one of a fixed set.

    Args:
        name: what the value is, in words.
        value: the value.
        kind: the `Literal` type that lists the allowed values.

    Raises:
        InputError: for any other value.
    """
    check_known(name, value, get_args(kind), "(one of {})")


def check_known(
    name: str, value: object, known: Iterable[object], listing: str = "out of {}"
) -> None:
    """Check that a value is one of those known; the error suggests the nearest one.

    >>> check_known("a method", "gradeint", ["gradient", "norm"])
    Traceback (most recent call last):
    headcount.core.errors.InputError: Expected a method out of gradient, norm, got 'gradeint'. Did \
you mean gradient?

    Args:
        name: what the value is, in words.
        value: the value.
        known: the allowed values.
        listing: how the error lists them.

    Raises:
        InputError: for any other value.
    """
    if value not in (known := tuple(known)):
        words = list(map(str, known))
        raise InputError(
            f"Expected {name} {listing.format(', '.join(words))}, got {value!r}."
            f"{did_you_mean(str(value), words)}"
        )


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A sentence that suggests the nearest of some words, in any case; empty if none is near."""
    folded = {word.casefold(): word for word in known}
    near = get_close_matches(given.casefold(), folded, n=1)
    return f" Did you mean {folded[near[0]]}?" if near else ""


def option_types(make: Callable[..., object]) -> dict[str, Any]:
    """The type that a constructor declares for each of its options."""
    return {name: each.annotation for name, each in signature(make).parameters.items()}


def _read(option: str, types: Mapping[str, Any]) -> tuple[str, str, Any]:
    """Name, field (empty if the option has none) and value of an option."""
    name, equals, text = option.partition("=")
    whole, _, field = name.partition(".")
    if not equals or whole not in types:
        raise _unknown(option, types)
    if not field:
        return whole, "", _value(name, types[whole], text)
    inside = option_types(types[whole]) if is_dataclass(types[whole]) else {}
    if field not in inside:
        raise _unknown(option, {f"{whole}.{each}": each for each in inside} or types)
    return whole, field, _value(name, inside[field], text)


def _unknown(option: str, names: Mapping[str, object]) -> InputError:
    return InputError(
        f"Expected NAME=VALUE with a NAME out of {', '.join(names) or 'none'}, got {option!r}."
        f"{did_you_mean(option.partition('=')[0], names)}"
    )


_NUMBERS = {int: "a whole number", float: "a number", str: "text"}
"""Types of options, in words."""


def _value(name: str, kind: Any, text: str) -> Any:
    """Convert text to the first type that it fits."""
    kinds = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    for one in kinds:
        if text in (choices := _choices(one)):
            return choices[text]
        if one in (int, float, str):
            try:
                return one(text)
            except ValueError:
                continue
    words = [_listed(_choices(one)) or _NUMBERS.get(one, str(one)) for one in kinds]
    raise InputError(f"Expected {' or '.join(words)} for {name}, got {text!r}.")


def _listed(choices: Iterable[str]) -> str:
    """The allowed words, in words; empty if there are none."""
    words = list(choices)
    return f"one of {', '.join(words)}" if len(words) > 1 else "".join(words)


def _choices(kind: Any) -> dict[str, Any]:
    if get_origin(kind) is Literal:
        return {str(value): value for value in get_args(kind)}
    return {bool: {"true": True, "false": False}, types.NoneType: {"none": None}}.get(kind, {})
