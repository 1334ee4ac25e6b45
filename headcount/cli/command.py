"""The command line: `headcount COMMAND ...`. Commands only call the library."""

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast, runtime_checkable

import tyro

from headcount import __version__
from headcount.cli.console import plain_console
from headcount.core import InputError, check_known, is_alone, processes

COMMANDS = {
    "analyze": "Analyze",
    "align": "Align",
    "importance": "Importance",
    "probe": "Probe",
    "prune": "Prune",
    "curve": "Curve",
    "compact": "Compact",
    "export": "Export",
    "train": "Train",
    "finetune": "Finetune",
    "evaluate": "Evaluate",
    "speed": "SpeedCommand",
    "report": "Report",
    "compare": "Compare",
    "reproduce": "Reproduce",
    "doctor": "Doctor",
    "demo": "Demo",
}
"""The class of every command, in the module of the command's name."""

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
)


def advice(error: BaseException) -> str | None:
    """The advice for one of these errors; None for any other."""
    return full_disk(error) or full_memory(error) or refused_path(error)


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
    """The advice for an error that full GPU memory caused."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(error, torch.OutOfMemoryError):
        return None
    return (
        f"The device is out of memory ({str(error).splitlines()[0]}). Lower --max-tokens or "
        "batch_tokens if the command has them, or use --dtype bfloat16; add --resume if it has "
        "that."
    )


def refused_path(error: BaseException) -> str | None:
    """The advice for an error about a file or folder that can't be read or made."""
    if not (isinstance(error, OSError) and error.filename and error.errno in REFUSED):
        return None
    return (
        f"{os.fspath(error.filename)} can't be used ({error.strerror}). Name another path, or "
        "change its permissions."
    )


@runtime_checkable
class Command(Protocol):
    """Arguments of one command, which `run` obeys."""

    def run(self) -> int:
        """Run the command; returns the exit status."""
        ...


def command_class(name: str) -> type[Command]:
    """The class of a command; only its own module is imported."""
    return cast("type[Command]", getattr(import_module(f"headcount.cli.{name}"), COMMANDS[name]))


def parse(arguments: Sequence[str]) -> Command:
    """The command that some arguments name.

    Raises:
        InputError: If there is no such command.
        SystemExit: If its arguments ask for help or are wrong; what there is to say is printed.
    """
    if not arguments:
        raise InputError(
            f"Expected a command out of {', '.join(COMMANDS)}, got none. Run headcount --help."
        )
    name, *others = arguments
    check_known("a command", name, COMMANDS)
    return tyro.cli(command_class(name), args=others, prog=f"headcount {name}")


def main(arguments: list[str] | None = None) -> int:
    """Run one command; an error that the user can fix prints a sentence and returns 2."""
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except BrokenPipeError:
        # The reader closed the pipe, as `| head` does; buffered output must still go somewhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(arguments: list[str]) -> int:
    if arguments[:1] == ["--version"]:
        plain_console().print(f"headcount {__version__}")
        return 0
    if arguments[:1] in (["--help"], ["-h"]):
        _print_commands()
        return 0
    errors = plain_console(stderr=True)
    try:
        command = parse(arguments)
        _silence_transformers()
        status = command.run()
        if not is_alone():
            processes().destroy_process_group()
        return status
    except InputError as error:
        errors.print(f"headcount: {error}", style="red")
        return 2
    except Exception as error:
        if (reported := advice(error)) is None:
            raise
        errors.print(f"headcount: {reported}", style="red")
        return 2
    except KeyboardInterrupt:
        errors.print(
            "headcount: stopped; if the command has --resume, add it to continue",
            style="yellow",
        )
        return 130


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
    console.print(f"{USAGE}\n\nWhich attention heads do the work?\n")
    for name in COMMANDS:
        doc = command_class(name).__doc__ or ""
        console.print(f"  {name:<11} {doc.splitlines()[0]}")
    console.print("\nheadcount --version prints the version.")
