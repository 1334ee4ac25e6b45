"""Processes: how many are running. torchrun starts them, accelerate connects them."""

import os
from typing import TYPE_CHECKING

from headcount.core.errors import InputError

if TYPE_CHECKING:
    from accelerate import PartialState

SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "WORLD_SIZE")
"""Environment variables that launchers set to the number of processes; accelerate reads them."""


def processes() -> "PartialState":
    """The rank of this process and the number of processes: one, unless torchrun started several.

    Only sums of a few kilobytes are exchanged, so gloo on the CPU is enough, whatever the model's
    device.
    """
    from accelerate import PartialState

    return PartialState(cpu=True)


def is_alone() -> bool:
    """Whether no launcher started several processes; needs no torch."""
    return all(int(os.environ.get(name) or 1) < 2 for name in SIZES)


def is_main_process() -> bool:
    """Whether this is the process that writes and prints; needs no torch if there is only one."""
    return is_alone() or processes().is_main_process


def wait_for_everyone() -> None:
    """Wait until all processes are here; needs no torch if there is only one."""
    if not is_alone():
        processes().wait_for_everyone()


def check_single_process() -> None:
    """Check that only one process runs.

    Raises:
        InputError: under torchrun, where each process would repeat all of the work.
    """
    if not is_alone() and (number := processes().num_processes) > 1:
        raise InputError(
            f"Expected one process, got {number}. Run it without torchrun, which works with "
            "`analyze`, `train` and gates in your own training (docs/gates.md)."
        )
