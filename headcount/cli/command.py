"""The command line: `headcount COMMAND ...`. Commands only call the library."""

import os
import sys
from typing import Annotated

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
from headcount.cli.system_error import mendable
from headcount.cli.train import Train
from headcount.errors import InputError
from headcount.processes import processes

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
        if (told := mendable(error)) is None:
            raise
        errors.print(f"headcount: {told}", style="red")
        return 2
    except KeyboardInterrupt:
        errors.print(
            "headcount: stopped; if the command has --resume, add it to continue",
            style="yellow",
        )
        return 130
