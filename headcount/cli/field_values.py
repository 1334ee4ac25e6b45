"""Fields of a dataclass as text: NAME=VALUE, converted to the types that the dataclass declares."""

import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal, Union, get_args, get_origin

from headcount.core import InputError, did_you_mean


def field_values(kind: type, options: Sequence[str]) -> dict[str, Any]:
    """The values of fields given as text, by name.

    Args:
        kind: The dataclass.
        options: NAME=VALUE each.

    Raises:
        InputError: For an unknown field, or a value of another type.
    """
    declared, found = {each.name: each.type for each in fields(kind)}, {}
    for option in options:
        name, equals, text = option.partition("=")
        if not equals or name not in declared:
            raise _unknown(option, declared)
        found[name] = _value(name, declared[name], text)
    return found


def _unknown(option: str, names: Mapping[str, object]) -> InputError:
    return InputError(
        f"Expected NAME=VALUE with a NAME out of {', '.join(names)}, got {option!r}."
        f"{did_you_mean(option.partition('=')[0], names)}"
    )


_NUMBERS = {int: "a whole number", float: "a number", str: "text"}
"""Types of fields, in words."""


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
