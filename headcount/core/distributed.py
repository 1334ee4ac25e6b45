"""Processes: how many are running. torchrun starts them, accelerate connects them."""

from accelerate import PartialState

from headcount.core.errors import InputError


def processes() -> PartialState:
    """The rank of this process and the number of processes: one, unless torchrun started several.

    Only sums of a few kilobytes are exchanged, so gloo on the CPU is enough, whatever the model's
    device.
    """
    return PartialState(cpu=True)


def check_single_process() -> None:
    """Check that only one process runs.

    Raises:
        InputError: under torchrun, where each process would repeat all of the work.
    """
    if (number := processes().num_processes) > 1:
        raise InputError(
            f"Expected one process, got {number}. Run it without torchrun, which works with "
            "`analyze`, `train` and gates in your own training (docs/gates.md)."
        )
