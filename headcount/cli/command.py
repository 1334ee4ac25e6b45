"""The command line: `headcount COMMAND ...`. Commands only call the library."""

import errno
import os
import sys
from typing import Annotated

import torch
import tyro
from transformers.utils import logging

from headcount.cli.analyze import Analyze
from headcount.cli.compact import Compact
from headcount.cli.compare import Compare
from headcount.cli.console import plain_console
from headcount.cli.curve import Curve
from headcount.cli.demo import Demo
from headcount.cli.doctor import Doctor
from headcount.cli.evaluate import Evaluate
from headcount.cli.export import Export
from headcount.cli.finetune import Finetune
from headcount.cli.importance import Importance
from headcount.cli.prune import Prune
from headcount.cli.report import Report
from headcount.cli.reproduce import Reproduce
from headcount.cli.speed import SpeedCommand
from headcount.cli.train import Train
from headcount.core import InputError, processes

TOLD = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
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


def mendable(error: BaseException) -> str | None:
    """The advice for one of these errors; None for any other."""
    return full_disk(error) or full_memory(error) or refused_path(error)


def full_disk(error: BaseException) -> str | None:
    """The advice for an error that a full disk caused, directly or through another error.

    It is recognised by the system's message, whichever library was writing: libraries in other
    languages raise their own exceptions with that message in them.
    """
    lines = [line for line in str(error).splitlines() if any(words in line for words in TOLD)]
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
    if not isinstance(error, torch.OutOfMemoryError):
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


Command = (
    Annotated[Analyze, tyro.conf.subcommand("analyze")]
    | Annotated[Importance, tyro.conf.subcommand("importance")]
    | Annotated[Prune, tyro.conf.subcommand("prune")]
    | Annotated[Curve, tyro.conf.subcommand("curve")]
    | Annotated[Compact, tyro.conf.subcommand("compact")]
    | Annotated[Export, tyro.conf.subcommand("export")]
    | Annotated[Train, tyro.conf.subcommand("train")]
    | Annotated[Finetune, tyro.conf.subcommand("finetune")]
    | Annotated[Evaluate, tyro.conf.subcommand("evaluate")]
    | Annotated[SpeedCommand, tyro.conf.subcommand("speed")]
    | Annotated[Report, tyro.conf.subcommand("report")]
    | Annotated[Compare, tyro.conf.subcommand("compare")]
    | Annotated[Reproduce, tyro.conf.subcommand("reproduce")]
    | Annotated[Doctor, tyro.conf.subcommand("doctor")]
    | Annotated[Demo, tyro.conf.subcommand("demo")]
)


def main(arguments: list[str] | None = None) -> int:
    """Run one command; an error that the user can fix prints a sentence and returns 2."""
    try:
        return _run(arguments)
    except BrokenPipeError:
        # The reader closed the pipe, as `| head` does; buffered output must still go somewhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(arguments: list[str] | None) -> int:
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    command = tyro.cli(
        Command,  # type: ignore[arg-type]
        args=arguments,
        prog="headcount",
        description="Which attention heads do the work?",
    )
    errors = plain_console(stderr=True)
    try:
        status = command.run()
        processes().destroy_process_group()
        return status
    except InputError as error:
        errors.print(f"headcount: {error}", style="red")
        return 2
    except Exception as error:
        if (reported := mendable(error)) is None:
            raise
        errors.print(f"headcount: {reported}", style="red")
        return 2
    except KeyboardInterrupt:
        errors.print(
            "headcount: stopped; if the command has --resume, add it to continue",
            style="yellow",
        )
        return 130
