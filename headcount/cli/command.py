"""The command line: `headcount COMMAND ...`. Commands only call the library."""

import errno
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import cast

import tyro

from headcount import __version__
from headcount.cli.console import plain_console, quietly
from headcount.cli.frame import Command
from headcount.cli.stopping import stoppable
from headcount.cli.words import check_given_once, check_not_empty
from headcount.core import (
    InputError,
    check_known,
    check_single_process,
    is_alone,
    is_main_process,
    processes,
    reason,
    release,
    shortened,
    taking_over,
    visible,
)

GROUPS = {
    "Look at what heads do": {
        "analyze": "Analyze",
        "cluster": "Cluster",
        "align": "Align",
        "coreference": "Coreference",
        "probe": "Probe",
        "evolve": "Evolve",
        "serve": "Serve",
    },
    "Explain a prediction or a skill": {"explain": "Explain", "skills": "SkillsCommand"},
    "Score what heads are worth": {
        "importance": "Importance",
        "sensitivity": "SensitivityCommand",
        "evaluate": "Evaluate",
    },
    "Make the cache or the model smaller": {
        "cache": "CacheCommand",
        "prune": "Prune",
        "curve": "Curve",
        "compact": "Compact",
        "speed": "SpeedCommand",
        "export": "Export",
    },
    "Train": {"train": "Train", "finetune": "Finetune", "follow": "Follow"},
    "More": {
        "report": "Report",
        "compare": "Compare",
        "reproduce": "Reproduce",
        "doctor": "Doctor",
        "demo": "Demo",
        "sample": "Sample",
    },
}
"""The commands by what they are for: the class of each, in the module of the command's name."""

COMMANDS = {name: found for group in GROUPS.values() for name, found in group.items()}
"""The class of every command."""

SEVERAL = ("analyze", "train")
"""The commands that share their work if torchrun starts several processes."""

QUIET, JSON, CSV, TAKE_OVER = "--quiet", "--json", "--csv", "--take-over"
EVERYWHERE = {
    QUIET: "Print warnings and errors only.",
    JSON: "Print the run's record instead of a summary.",
    CSV: "Write a CSV beside each table.",
    TAKE_OVER: "Take over a folder that a process held which has ended, on disks without locks.",
}
"""Options of every command, with their help."""

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

DISK_IS_FULL = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
REFUSED = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EEXIST,
    errno.ENAMETOOLONG,
    errno.EBUSY,
    errno.EXDEV,
    errno.ELOOP,
    errno.EISDIR,
)


NO_MEMORY = "DefaultCPUAllocator: "
"""What torch says, in a RuntimeError, if the machine has no memory left."""

LONGEST = 300
"""Largest number of characters of an argument in an error of the parser."""

CLOSED = ("Connection closed by peer", "Connection reset by peer", "Broken pipe")
"""What gloo says if another process of a run ended."""
LATE = ("clients joined", "client socket has timed out", "Timed out waiting", "wait timeout")
"""What torch.distributed and gloo say if another process was waited for in vain."""


def advice(error: BaseException) -> str | None:
    """The advice for one of these errors; None for any other."""
    return full_disk(error) or full_memory(error) or refused_path(error) or lost_process(error)


def full_disk(error: BaseException) -> str | None:
    """The advice for an error that a full disk caused, directly or through another error.

    It is recognised by the system's message, whichever library was writing: libraries in other
    languages raise their own exceptions with that message in them.
    """
    lines = [
        line for line in str(error).splitlines() if any(words in line for words in DISK_IS_FULL)
    ]
    if lines:
        return (
            f"The disk is full ({lines[0]}). Free some space, then run the command again, with "
            "--resume if it has that option. Earlier files are unchanged, and complete checkpoints "
            "are kept."
        )
    came_of = error.__cause__ or error.__context__
    return None if came_of is None else full_disk(came_of)


def full_memory(error: BaseException) -> str | None:
    """The advice for an error that full memory caused, of a GPU or of the machine."""
    torch, words = sys.modules.get("torch"), reason(error)
    is_full = isinstance(error, MemoryError) or NO_MEMORY in str(error)
    if not is_full and (torch is None or not isinstance(error, torch.OutOfMemoryError)):
        return None
    return (
        f"The device is out of memory ({words}). Lower --max-tokens or "
        "batch_tokens if the command has them, or use --dtype bfloat16; add --resume if it has "
        "that."
    )


def refused_path(error: BaseException) -> str | None:
    """The advice for an error about a file or folder that can't be read or made."""
    if isinstance(error, RuntimeError) and str(error).startswith("Symlink loop"):
        return f"{error}. Remove the link, or name another path."
    if not (isinstance(error, OSError) and error.filename and error.errno in REFUSED):
        return None
    return (
        f"{os.fspath(error.filename)} can't be used ({error.strerror}). Name another path, or "
        "change its permissions."
    )


def lost_process(error: BaseException) -> str | None:
    """The advice for an error of a process that outlives another one of its run."""
    if is_alone():
        return None
    if found := [words for words in CLOSED if words in str(error)]:
        return (
            f"Another process of this run ended ({found[0]}). Its own message says why. Start all "
            "of them again, with --resume if the command has that option."
        )
    if any(words in str(error) for words in LATE):
        return (
            f"Another process of this run did not come or did not answer ({reason(error)}). Look "
            "whether all were started, then start all of them again, with --resume if the command "
            "has that option."
        )
    return None


def command_class(name: str) -> type[Command]:
    """The class of a command; only its own module is imported."""
    return cast("type[Command]", getattr(import_module(f"headcount.cli.{name}"), COMMANDS[name]))


def parse(arguments: Sequence[str]) -> Command:
    """The command that the first of some arguments names.

    Raises:
        InputError: If there is no such command.
        SystemExit: If its arguments ask for help or are wrong; what there is to say is printed.
    """
    name, *others = arguments
    check_known("a command", name, COMMANDS)
    check_not_empty(others)
    check_given_once(others)
    try:
        with redirect_stderr(StringIO()):
            return _parsed(name, others)
    except SystemExit as error:
        if not error.code:  # help, which was printed
            raise
        if (refused := _refused(error)) is not None:
            raise refused from None
        # The same error again, now printed, shorter and without signs that a terminal obeys.
        _parsed(name, [shortened(visible(each), LONGEST) for each in others])
        raise


def _refused(error: BaseException) -> InputError | None:
    """The error of a dataclass of options, which the parser turned into one of its own."""
    while error.__context__ is not None:
        error = error.__context__
        if isinstance(error, InputError):
            return error
    return None


def _parsed(name: str, arguments: Sequence[str]) -> Command:
    kind = command_class(name).parsed_by(arguments)
    return tyro.cli(kind, args=arguments, prog=f"headcount {name}")


def record_of(name: str, command: Command) -> Path:
    """The file that `--json` prints.

    Raises:
        InputError: If the command writes no record, or has no --out to write it into.
    """
    record = command.record_name()
    if record is None:
        raise _writes_none(name, "a record", Command.record_name, JSON)
    return _out(command, f"{JSON} prints the record") / record


def tables_of(name: str, command: Command) -> Path:
    """The folder in which `--csv` writes.

    Raises:
        InputError: If the command writes no table, or has no --out to write it into.
    """
    if not command.writes_tables():
        raise _writes_none(name, "tables", Command.writes_tables, CSV)
    return _out(command, f"{CSV} copies the tables")


def _writes_none(name: str, what: str, declared: Callable[[], object], option: str) -> InputError:
    """The error that a command does not write what an option needs; it names those that do."""
    others = [each for each in COMMANDS if getattr(command_class(each), declared.__name__)()]
    return InputError(
        f"Expected a command that writes {what} ({', '.join(others)}), got {name}, which writes "
        f"none. Leave {option} out."
    )


def _out(command: Command, what: str) -> Path:
    out: Path | None = getattr(command, "out", None)
    if out is None:
        raise InputError(f"Expected --out, since {what} there. Name a folder.")
    return out


def main(arguments: list[str] | None = None) -> int:
    """Run one command; an error that the user can fix prints a sentence and returns 2."""
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except BrokenPipeError:
        # The reader closed the pipe, as `| head` does; buffered output must still go somewhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(arguments: list[str]) -> int:
    words = [each for each in arguments if each not in EVERYWHERE]
    if words[:1] == ["--version"]:
        plain_console().print(f"headcount {__version__}")
        return 0
    if words[:1] in (["--help"], ["-h"]):
        _print_commands()
        return 0
    if not words:
        plain_console().print(f"{QUESTION}\n\n{EXAMPLES}")
        return 2
    errors = plain_console(stderr=True)
    with stoppable() as stop:
        try:
            if words[0] == COMPLETION:
                sys.stdout.write(_completion(words[1:]))
                return 0
            quiet, as_json = QUIET in arguments, JSON in arguments
            command = parse(words)
            if words[0] not in SEVERAL:
                if not is_main_process():
                    return 2  # the main process says why
                check_single_process()
            record = record_of(words[0], command) if as_json else None
            copied = tables_of(words[0], command) if CSV in arguments else None
            with quietly(quiet or as_json), taking_over(TAKE_OVER in arguments):
                status, is_main = _finish(command)
                if copied is not None and is_main and status == 0:
                    _write_csv(copied)
            if record is not None and is_main and status == 0:
                sys.stdout.write(record.read_text(encoding="utf-8"))
            return status
        except (Exception, KeyboardInterrupt) as error:
            if stop.number is not None or isinstance(error, KeyboardInterrupt):
                # An import that is interrupted may end with an error of its own.
                errors.print(
                    "headcount: stopped; if the command has --resume, add it to continue",
                    style="yellow",
                )
                return stop.status
            reported = str(error) if isinstance(error, InputError) else advice(error)
            if reported is None:
                raise
            errors.print(f"headcount: {shortened(reported)}", style="red")
            return 2
        finally:
            release()


def _finish(command: Command) -> tuple[int, bool]:
    """Run a command to its end; returns its status, and whether this is the main process."""
    _silence_transformers()
    status, is_main = command.run(), is_main_process()
    if not is_alone():
        processes().destroy_process_group()
    return status, is_main


def _completion(shells: Sequence[str]) -> str:
    from headcount import pruning
    from headcount.cli.completion import SHELLS, completion  # only here: commands do without

    shell = " ".join(shells)
    check_known("a shell", shell, SHELLS)
    methods = [*pruning.METHOD_OPTIONS]
    values = {("prune", "--method"): methods, ("curve", "--methods"): ["all", *methods]}
    return completion(shell, {name: command_class(name) for name in COMMANDS}, EVERYWHERE, values)


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
    for group, commands in GROUPS.items():
        console.print(group, style="bold")
        for name in commands:
            doc = command_class(name).__doc__ or ""
            console.print(f"  {name:<11} {doc.splitlines()[0]}")
    console.print(
        f"{QUIET} prints warnings and errors only, {JSON} the run's record; {CSV} writes a\n"
        f"CSV beside each table; {TAKE_OVER} takes over a folder whose process has ended.\n"
        f"headcount --version; headcount {COMPLETION} bash (or zsh) for tab completion."
    )
