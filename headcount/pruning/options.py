"""Options of a method as text: NAME=VALUE, by the types that its constructor names."""

import types
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from headcount.errors import InputError

Made = TypeVar("Made")


def made(make: Callable[..., Made], options: Sequence[str]) -> Made:
    """What a constructor makes with some options.

    >>> made(complex, [])
    0j

    Args:
        make: has a default for every option.
        options: each NAME=VALUE.

    Raises:
        InputError: for an option that there is not, or a value that it can't have.
    """
    kinds = {} if not options else {
        name: each.annotation for name, each in signature(make).parameters.items()
    }  # fmt: skip
    values: dict[str, Any] = {}
    for option in options:
        name, equals, text = option.partition("=")
        if name not in kinds or not equals:
            raise InputError(
                f"options of this method are given as NAME=VALUE, with a name out of "
                f"{', '.join(kinds) or 'none'}; came {option!r}"
            )
        values[name] = _value(name, kinds[name], text)
    return make(**values)


def _value(name: str, kind: Any, text: str) -> Any:
    for one in _alternatives(kind):
        choices = _choices(one)
        if text in choices:
            return choices[text]
        if one in (int, float, str):
            try:
                return one(text)
            except ValueError:
                continue
    words = [", ".join(_choices(one)) or one.__name__ for one in _alternatives(kind)]
    raise InputError(f"{name} is {' or '.join(words)}; came {text!r}")


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _choices(kind: Any) -> dict[str, Any]:
    if get_origin(kind) is Literal:
        return {str(value): value for value in get_args(kind)}
    return {bool: {"true": True, "false": False}, types.NoneType: {"none": None}}.get(kind, {})
