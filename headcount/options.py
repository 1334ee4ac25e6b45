"""Options as text: NAME=VALUE, by the types that a constructor names."""

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from inspect import signature
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

from headcount.errors import InputError

Made = TypeVar("Made")
Changed = TypeVar("Changed")


def made(make: Callable[..., Made], options: Sequence[str]) -> Made:
    """What a constructor makes with some options.

    Args:
        make: has a default for every option.
        options: each NAME=VALUE, or NAME.FIELD=VALUE where an option has fields of its own.

    Raises:
        InputError: for an option that there is not, or a value that it can't have.
    """
    values: dict[str, Any] = {}
    for option in options:
        name, equals, text = option.partition("=")
        whole, _, field = name.partition(".")
        kinds = _kinds(make)
        if not equals or whole not in kinds:
            raise _unknown(option, kinds)
        if not field:
            values[whole] = _value(name, kinds[whole], text)
            continue
        fields = _kinds(kinds[whole]) if is_dataclass(kinds[whole]) else {}
        if field not in fields:
            raise _unknown(option, {f"{whole}.{each}": each for each in fields} or kinds)
        before = values.get(whole) or getattr(make(), whole)
        values[whole] = replace(before, **{field: _value(name, fields[field], text)})
    return make(**values)


def changed(record: Changed, options: Sequence[str]) -> Changed:
    """A frozen dataclass's record with some fields set anew.

    Args:
        record: stays as it is.
        options: each FIELD=VALUE.

    Raises:
        InputError: for a field that there is not, or a value that it can't have.
    """
    kinds, values = _kinds(type(record)), {}
    for option in options:
        name, equals, text = option.partition("=")
        if not equals or name not in kinds:
            raise _unknown(option, kinds)
        values[name] = _value(name, kinds[name], text)
    return replace(cast("Any", record), **values)


def refuse_negative(seed: int) -> None:
    """See that a seed can be one.

    Raises:
        InputError: if it is negative.
    """
    if seed < 0:
        raise InputError(f"a seed of at least 0 was expected; came {seed}")


def refuse_other(name: str, value: object, kind: Any) -> None:
    """See that a value is one that there is.

    Args:
        name: what it is of.
        value: it.
        kind: the type that names all of them, a `Literal`.

    Raises:
        InputError: for any other.
    """
    if value not in (choices := get_args(kind)):
        raise InputError(
            f"{name} out of {', '.join(map(str, choices))} was expected; came {value!r}"
        )


def _kinds(make: Callable[..., object]) -> dict[str, Any]:
    return {name: each.annotation for name, each in signature(make).parameters.items()}


def _unknown(option: str, names: Mapping[str, object]) -> InputError:
    return InputError(
        f"NAME=VALUE was expected, with a name out of {', '.join(names) or 'none'}; came {option!r}"
    )


def _value(name: str, kind: Any, text: str) -> Any:
    """Text as the first of the kinds that it can be."""
    kinds = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    for one in kinds:
        if text in (choices := _choices(one)):
            return choices[text]
        if one in (int, float, str):
            try:
                return one(text)
            except ValueError:
                continue
    words = [", ".join(_choices(one)) or str(getattr(one, "__name__", one)) for one in kinds]
    raise InputError(f"{name} is {' or '.join(words)}; came {text!r}")


def _choices(kind: Any) -> dict[str, Any]:
    if get_origin(kind) is Literal:
        return {str(value): value for value in get_args(kind)}
    return {bool: {"true": True, "false": False}, types.NoneType: {"none": None}}.get(kind, {})
