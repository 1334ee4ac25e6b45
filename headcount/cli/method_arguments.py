"""Options of methods on the command line: which ones there are depends on the methods named."""

from collections.abc import Sequence
from dataclasses import field, make_dataclass
from typing import Annotated, TypeVar

import tyro

Kind = TypeVar("Kind")


def values_of(arguments: Sequence[str], option: str) -> list[str]:
    """The values of an option in some arguments that are not parsed yet.

    >>> values_of(["a.tsv", "--site", "encoder.self", "decoder.self", "--keep=3"], "--site")
    ['encoder.self', 'decoder.self']
    >>> values_of(["--keep=3"], "--keep")
    ['3']
    """
    found, is_value = [], False
    for each in arguments:
        if each.startswith("--"):
            name, equals, value = each.partition("=")
            is_value = name.replace("_", "-") == option
            found += [value] if is_value and equals else []
        elif is_value:
            found.append(each)
    return found


def with_options(command: type[Kind], prefix: str, options: object) -> type[Kind]:
    """The class of a command whose field `options` is parsed from --PREFIX.NAME VALUE.

    Args:
        command: The class.
        prefix: The prefix of every option.
        options: The options by default: a frozen dataclass.
    """
    kind = Annotated[type(options), tyro.conf.arg(name=prefix)]
    made = make_dataclass(
        command.__name__,
        [("options", kind, field(default=options, kw_only=True))],
        bases=(command,),
        frozen=True,
    )
    made.__doc__, made.__module__ = command.__doc__, command.__module__
    return made
