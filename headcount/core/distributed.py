"""Processes: how many are running. torchrun starts them, accelerate connects them."""

import os
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from headcount.core.errors import InputError

if TYPE_CHECKING:
    from accelerate import PartialState

SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "WORLD_SIZE")
"""Environment variables that launchers set to the number of processes; accelerate reads them."""
RANKS = ("RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK")
"""Environment variables that launchers set to the number of this process, from 0."""


def processes() -> "PartialState":
    """The rank of this process and the number of processes: one, unless torchrun started several.

    Only sums of a few kilobytes are exchanged, so gloo on the CPU is enough, whatever the model's
    device.
    """
    from accelerate import PartialState

    return PartialState(cpu=True)


def is_alone() -> bool:
    """Whether no launcher started several processes; needs no torch."""
    return _started() < 2


def is_main_process() -> bool:
    """Whether this is the process that writes and prints; needs no torch, and waits for none."""
    return is_alone() or not any(int(os.environ.get(name) or 0) for name in RANKS)


def wait_for_everyone() -> None:
    """Wait until all processes are here; needs no torch if there is only one."""
    if not is_alone():
        processes().wait_for_everyone()


def check_single_process() -> None:
    """Check that only one process runs; waits for no other one.

    Raises:
        InputError: under torchrun, where each process would repeat all of the work.
    """
    if not is_alone():
        raise InputError(
            f"Expected one process, got {_started()}. Run it without torchrun, which works with "
            "`analyze`, `train` and gates in your own training (docs/gates.md)."
        )


def check_one_folder(folder: Path) -> None:
    """Check that all processes see one folder, which the main process has made.

    Raises:
        InputError: if this process sees another one, as on hosts without a shared disk.
    """
    if is_alone():
        return
    from accelerate.utils import broadcast_object_list

    us = processes()
    name = broadcast_object_list([f".seen-{uuid4().hex}"])[0]
    if us.is_main_process:
        (folder / name).touch()
    us.wait_for_everyone()
    is_seen = (folder / name).exists()
    us.wait_for_everyone()
    if us.is_main_process:
        (folder / name).unlink()
    if not is_seen:
        raise InputError(
            f"Expected one folder for all processes, but the main process's {folder} is another "
            f"folder than that of process {us.process_index}. Name a folder on a disk that all "
            "hosts share."
        )


def _started() -> int:
    """Number of processes that a launcher started; 1 without a launcher."""
    return max(int(os.environ.get(name) or 1) for name in SIZES)
