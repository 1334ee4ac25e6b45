"""Tab completion: the script for a shell, with the options that every command has."""

from ast import literal_eval
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

QUIET, JSON, CSV, TAKE_OVER, YES = "--quiet", "--json", "--csv", "--take-over", "--yes"
PLUGIN, NO_PLUGINS = "--plugin", "--no-plugins"
EVERYWHERE = {
    QUIET: "Print warnings and errors only.",
    JSON: "Print the run's record instead of a summary.",
    CSV: "Write a CSV beside each table.",
    TAKE_OVER: "Take over a folder that a process held which has ended, on disks without locks.",
    YES: "Go on where headcount refuses what takes very long, or loses something.",
    PLUGIN: "Load a file (my.py) or an installed package with scores, tasks ... of your own.",
    NO_PLUGINS: "Load no other plug-ins.",
}
"""Options of every command, with their help."""

SHELLS = ("bash", "zsh")
"""Shells for which tyro writes scripts that complete subcommands."""

_SPEC = "COMPLETION_SPEC = "
"""Beginning of the script's line that says what there is to complete, as a Python literal."""

_VALUES = "    if current_word_index > 0:"
"""The script's line from which on it completes values, of an option with several also where a dash
begins the next option."""


def completion(
    shell: str,
    commands: Mapping[str, type],
    values: Mapping[tuple[str, str], Sequence[str]],
) -> str:
    """The script for a shell.

    Args:
        shell: One of `SHELLS`.
        commands: The class of each command, by name.
        values: The values of options that their type does not list, by command and option.
    """
    import tyro  # only here: a list of all commands needs no parser

    script, arguments = StringIO(), ["--tyro-print-completion", shell]
    try:
        with redirect_stdout(script):
            tyro.extras.subcommand_cli_from_dict(dict(commands), prog="headcount", args=arguments)
    except SystemExit as done:
        assert not done.code
    lines = script.getvalue().splitlines()
    return "\n".join(_with(line, values) for line in lines) + "\n"


def _with(line: str, values: Mapping[tuple[str, str], Sequence[str]]) -> str:
    """A line of the script; the one with options gets more of them, and help without line breaks.

    Options are completed behind several values, too. A line break in the help of an option would be
    a word to complete.
    """
    if line == _VALUES:
        return f'{_VALUES.removesuffix(":")} and not current_word.startswith("-"):'
    if not line.startswith(_SPEC):
        return line
    spec = literal_eval(line.removeprefix(_SPEC))
    for name, command in spec["subcommands"].items():
        for option in command["options"]:
            for flag in option["flags"]:
                if (name, flag) in values:
                    option |= {"type": "choice", "choices": [*values[name, flag]]}
        command["options"] += [
            {"flags": [flag], "description": help_, "type": "flag"}
            for flag, help_ in EVERYWHERE.items()
        ]
    return f"{_SPEC}{_in_lines(spec)!r}"


def _in_lines(value: Any) -> Any:
    """The value, with every text in one line."""
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, Mapping):
        return {name: _in_lines(each) for name, each in value.items()}
    return [_in_lines(each) for each in value] if isinstance(value, list | tuple) else value
