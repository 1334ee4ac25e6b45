"""The command line: `headcount COMMAND ...`. Commands only call the library."""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, suppress
from dataclasses import fields, is_dataclass
from importlib import import_module
from io import StringIO
from pathlib import Path
from traceback import format_exc
from typing import TYPE_CHECKING, Any, cast

from headcount import __version__
from headcount.commands.completion import (
    CSV,
    EVERYWHERE,
    JSON,
    NO_PLUGINS,
    PLUGIN,
    QUIET,
    SHELLS,
    TAKE_OVER,
    YES,
    completion,
)
from headcount.commands.console import plain_console, quietly
from headcount.commands.stopping import advice, stoppable, tell_launcher
from headcount.core import (
    REPAIR,
    Capability,
    InputError,
    PluginError,
    accepting,
    amount,
    blamed,
    capabilities,
    capability_registry,
    check_is_no_pipe,
    check_known,
    check_single_process,
    check_unicode,
    guarded,
    imported,
    is_alone,
    is_main_process,
    leave,
    listing,
    load_plugins,
    meet,
    origin_of_module,
    processes,
    release,
    shortened,
    taking_over,
    visible,
)

if TYPE_CHECKING:
    from headcount.commands.loop import Command

MAY_BE_EMPTY = ("--prefix",)
"""Options whose text may be empty."""


def check_not_empty(arguments: Sequence[str]) -> None:
    """Check that no argument is an empty text, which as a path would be the working directory.

    Raises:
        InputError: If one is; names the option.
    """
    option = "an argument"
    for each in arguments:
        option = each.partition("=")[0] if each.startswith("--") else option
        if option not in MAY_BE_EMPTY and (not each or each == f"{option}="):
            raise InputError(
                f"Expected a value for {option}, got an empty text. Give one, or leave it out. The "
                "working directory is written as a dot."
            )


def check_given_once(arguments: Sequence[str]) -> None:
    """Check that no option is given twice, since the values of the first would be lost.

    Raises:
        InputError: If one is; names it.
    """
    given = [each.partition("=")[0].replace("_", "-") for each in arguments if each[:2] == "--"]
    twice = next((option for option in given if given.count(option) > 1), None)
    if twice is not None:
        times = amount(given.count(twice), "time")
        raise InputError(
            f"Expected {twice} once, got it {times}. Give all its values after one {twice}."
        )


COMPLETION = "--completion"
"""Option that prints the script for tab completion."""

EXAMPLES = """\
  headcount demo --out demo                                     our own model, no network needed
  headcount analyze MODEL TREEBANK.conllu --out OUT             what every head does
  headcount importance MODEL --task TASK --data FILE --out OUT  what every head is worth

MODEL is a Hugging Face name or a folder. headcount --help lists all commands."""
"""What `headcount` alone prints."""

QUESTION = "Which attention heads do the work, and how many can be pruned?"

USAGE = "usage: headcount COMMAND [ARGUMENTS]  (see headcount COMMAND --help)"

LONGEST = 300
"""Largest number of characters of an argument in an error of the parser."""


def command_class(name: str) -> "type[Command]":
    """The class of a command; only its own module is imported.

    Raises:
        PluginError: If that of a plug-in is not there.
    """
    known = capability_registry()
    with guarded(known.origin(name), f"bring the command {name}"):
        return cast("type[Command]", imported(known[name].command))


def _described(name: str) -> "type[Command]":
    """The class of a command, with what the manifest says that it does."""
    kind, sentence = command_class(name), capability_registry()[name].sentence
    return type(kind.__name__, (kind,), {"__doc__": sentence, "__module__": kind.__module__})


def _after_stop(arguments: Sequence[str]) -> str:
    """What to do after a command was stopped, which may have been while it was imported."""
    with suppress(Exception):
        if hasattr(command_class(arguments[0]), "resume"):
            return "the same command with --resume goes on"
    return "it keeps no state, so the same command begins again"


def parse(arguments: Sequence[str]) -> "Command":
    """The command that the first of some arguments names.

    Raises:
        InputError: If there is no such command.
        SystemExit: If its arguments ask for help or are wrong; what there is to say is printed.
    """
    name, *others = arguments
    its = capability_registry()[name]
    check_not_empty(others)
    check_given_once(others)
    try:
        with redirect_stderr(StringIO()):
            command = _parsed(its, others)
    except SystemExit as error:
        if not error.code:  # help, which was printed
            raise
        if (refused := _refused(error)) is not None:
            raise refused from None
        # The same error again, now printed, shorter and without signs that a terminal obeys.
        _parsed(its, [shortened(visible(each), LONGEST) for each in others])
        raise
    check_values(command)
    return command


def check_values(options: Any) -> None:
    """Check that texts among some options have whole characters, and that files are files.

    Raises:
        InputError: If a text has not, or a file is a pipe, a socket or a device.
    """
    for field in fields(options):
        value = getattr(options, field.name)
        for each in value if isinstance(value, tuple) else (value,):
            if is_dataclass(each):
                check_values(each)
            elif isinstance(each, str | Path) and os.path.exists(each):
                check_is_no_pipe(Path(each))
            elif isinstance(each, str):
                check_unicode(each, f"--{field.name.replace('_', '-')}")


def option_names(options: Any) -> set[str]:
    """The names of the options of a command, without the prefixes of groups."""
    found = set[str]()
    for field in fields(options):
        value = getattr(options, field.name)
        found |= option_names(value) if is_dataclass(value) else {field.name}
    return found


def _refused(error: BaseException) -> InputError | None:
    """The error of a dataclass of options, which the parser turned into one of its own."""
    while error.__context__ is not None:
        error = error.__context__
        if isinstance(error, InputError):
            return error
    return None


def _parsed(its: Capability, arguments: Sequence[str]) -> "Command":
    import tyro  # only here: it takes longer than the rest of the help

    from headcount.commands.help_words import words_of_help

    kind = command_class(its.name).parsed_by(arguments)
    prog, sentence = f"headcount {its.name}", its.sentence
    words = words_of_help(its.usual) if {"-h", "--help"} & {*arguments} else None
    return tyro.cli(kind, args=arguments, prog=prog, description=sentence, registry=words)


def record_of(name: str, command: "Command") -> Path:
    """The file that `--json` prints.

    Raises:
        InputError: If the command writes no record, or has no --out to write it into.
    """
    record = command.record_name()
    if record is None:
        raise _writes_none(name, "a record", command.record_name, JSON)
    return _out(command, f"{JSON} prints the record") / record


def tables_of(name: str, command: "Command") -> Path:
    """The folder in which `--csv` writes.

    Raises:
        InputError: If the command writes no table, or has no --out to write it into.
    """
    if not command.writes_tables():
        raise _writes_none(name, "tables", command.writes_tables, CSV)
    return _out(command, f"{CSV} copies the tables")


def _writes_none(name: str, what: str, declared: Callable[[], object], option: str) -> InputError:
    """The error that a command does not write what an option needs; it names those that do."""
    kinds = ((each.name, command_class(each.name)) for each in capabilities())
    others = [each for each, kind in kinds if getattr(kind, declared.__name__)()]
    return InputError(
        f"Expected a command that writes {what} ({', '.join(others)}), got {name}, which writes "
        f"none. Leave {option} out."
    )


def _out(command: "Command", what: str) -> Path:
    out: Path | None = getattr(command, "out", None)
    if out is None:
        raise InputError(f"Expected --out, since {what} there. Name a folder.")
    return out


def main(arguments: list[str] | None = None) -> int:
    """Run one command; an error that the user can fix prints a sentence and returns 2."""
    words, plugins = _without_plugins(sys.argv[1:] if arguments is None else arguments)
    # A server runs no code that its own command line does not name.
    only = NO_PLUGINS in words or next((e for e in words if e[:1] != "-"), "") == "serve"
    if {*words} & {*capability_registry().own}:
        import_module("tyro")  # while a signal ends the process at once
    try:
        with listing(plugins, only):
            return _run(words)
    except BrokenPipeError:
        # The reader closed the pipe, as `| head` does; buffered output must still go somewhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _without_plugins(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments without --plugin, and the plug-ins that it names.

    >>> _without_plugins(["--plugin", "my.py", "importance", "gpt2", "--plugin=ours"])
    (['importance', 'gpt2'], ['my.py', 'ours'])
    """
    words, plugins, given = [], [], iter(arguments)
    for each in given:
        option, equals, value = each.partition("=")
        if option != PLUGIN:
            words.append(each)
        else:
            plugins.append(value if equals else next(given, ""))
    return words, plugins


def _run(arguments: list[str]) -> int:
    words = [each for each in arguments if each not in EVERYWHERE]
    if words[:1] == ["--version"]:
        plain_console().print(f"headcount {__version__}")
        return 0
    if not words:
        plain_console().print(f"{QUESTION}\n\n{EXAMPLES}")
        return 2
    errors, options = plain_console(stderr=True), set[str]()
    with stoppable() as stop:
        try:
            load_plugins()
            if words[0] in ("--help", "-h"):
                _print_commands()
                return 0
            if words[0] == COMPLETION:
                sys.stdout.write(_completion(words[1:]))
                return 0
            quiet, as_json = QUIET in arguments, JSON in arguments
            command = parse(words)
            options |= option_names(command)
            if not capability_registry()[words[0]].shares_work:
                if not is_main_process():
                    return 2  # the main process says why
                check_single_process()
            record = record_of(words[0], command) if as_json else None
            copied = tables_of(words[0], command) if CSV in arguments else None
            with (
                quietly(quiet or as_json),
                taking_over(TAKE_OVER in arguments),
                accepting(YES in arguments),
            ):
                status, is_main = _finish(command)
                if copied is not None and is_main and status == 0:
                    _write_csv(copied)
            if record is not None and is_main and status == 0:
                sys.stdout.write(record.read_text(encoding="utf-8"))
            return status
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            if stop.number is not None or isinstance(error, KeyboardInterrupt):
                # An import that is interrupted may end with an error of its own.
                errors.print(f"headcount: stopped; {_after_stop(words)}", style="yellow")
                return stop.status
            if isinstance(error, SystemExit) and not error.code:  # help, which was printed
                raise
            reported = str(error) if isinstance(error, InputError) else advice(error, options)
            if reported is None and (failed := blamed(error)) is not None:
                reported = str(failed)
            if reported is None and isinstance(error, SystemExit):  # the parser, which said why
                raise
            tell_launcher(format_exc() if reported is None else reported)
            if reported is None:
                raise
            errors.print(f"headcount: {shortened(reported)}", style="red")
            for note in getattr(error, "__notes__", ()):
                errors.print(note)
            return 2
        finally:
            leave()
            release()


def _finish(command: "Command") -> tuple[int, bool]:
    """Run a command to its end; returns its status, and whether this is the main process."""
    _silence_transformers()
    meet()
    status, is_main = command.run(), is_main_process()
    if not isinstance(status, int):
        kind = type(command)
        raise PluginError(
            f"Expected the status of the command {kind.__name__} of the plug-in "
            f"{origin_of_module(kind.__module__)} (0 if all is well), got {status!r:.80}. {REPAIR}"
        )
    if not is_alone():
        processes().destroy_process_group()
    return status, is_main


def _completion(shells: Sequence[str]) -> str:
    shell = " ".join(shells)
    check_known("a shell", shell, SHELLS)
    commands = {each.name: _described(each.name) for each in capabilities()}
    values = {
        (name, option): words
        for name, kind in commands.items()
        for option, words in kind.values().items()
    }
    return completion(shell, commands, values)


def _write_csv(folder: Path) -> None:
    from headcount.results import write_csv  # imports pandas, which few commands need

    names = [path.relative_to(folder).as_posix() for path in write_csv(folder)]
    plain_console().print(f"CSV in {folder}: {', '.join(names)}")


def _silence_transformers() -> None:
    """Set the verbosity of transformers, which may be imported later or already is."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    if "transformers" in sys.modules:
        logging = import_module("transformers.utils.logging")
        logging.set_verbosity_error()
        logging.disable_progress_bar()


def _print_commands() -> None:
    console = plain_console()
    console.print(f"{QUESTION}\n{USAGE}")
    listed: dict[str, list[Capability]] = {}
    for each in capabilities():
        listed.setdefault(each.group, []).append(each)
    for group, members in listed.items():
        console.print(group, style="bold")
        for each in members:
            console.print(f"  {each.name:<11} {each.sentence}")
    console.print(
        f"{QUIET} prints warnings only, {JSON} the run's record; {CSV} adds a CSV to each\n"
        f"table; {TAKE_OVER} takes over a folder whose process has ended; {YES} goes on\n"
        f"where headcount refuses; {PLUGIN} FILE loads code of yours, {NO_PLUGINS} none.\n"
        f"headcount --version; headcount {COMPLETION} bash (or zsh) for tab completion."
    )
