"""The console that commands print to: all output is plain text, never markup."""

from pathlib import Path
from typing import Any

from rich.console import Console

from headcount.core import InputError


def plain_console(soft_wrap: bool = True, stderr: bool = False) -> Console:
    """A console that never reads a path, name or message as markup and never colours numbers.

    Args:
        soft_wrap: Whether long lines stay unbroken, as paths need; tables need False.
        stderr: Whether to print to standard error.
    """
    return Console(stderr=stderr, highlight=False, soft_wrap=soft_wrap, markup=False)


def print_markdown(text: str, console: Console) -> None:
    """Print Markdown as a terminal shows it."""
    from rich.markdown import Markdown  # imports a parser that few commands need

    console.print(Markdown(text))


def to_jsonable(value: Any) -> Any:
    """The same value with lists for tuples and text for paths.

    >>> to_jsonable({"corpus": (Path("a.txt"),), "limit": None})
    {'corpus': ['a.txt'], 'limit': None}
    """
    if isinstance(value, dict):
        return {name: to_jsonable(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_jsonable(each) for each in value]
    return str(value) if isinstance(value, Path) else value


def check_no_unused_options(command: object, option: str, read_by: str, advice: str) -> None:
    """Raise an error if an option that nothing would read is not at its default.

    Args:
        command: Arguments, with defaults in their class.
        option: Name of the field.
        read_by: The part that would read the option.
        advice: How to ask for that part.

    Raises:
        InputError: If the option was set.
    """
    if getattr(command, option) != getattr(type(command), option):
        raise InputError(
            f"--{option.replace('_', '-')} only affects {read_by}. {advice}, or leave the option "
            "out."
        )
