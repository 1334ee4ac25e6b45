"""Processes: how many of us there are. torchrun starts them, accelerate joins them."""

from accelerate import PartialState

from headcount.errors import InputError


def processes() -> PartialState:
    """Know which process of how many we are: the only one, unless torchrun started several.

    Only sums of a few kilobytes are exchanged, so gloo on the processor is enough, whatever device
    the model is on.
    """
    return PartialState(cpu=True)


def refuse_several() -> None:
    """Let a command pass that one process runs.

    Raises:
        InputError: under torchrun, where each process would do all of the work.
    """
    if (number := processes().num_processes) > 1:
        raise InputError(
            f"this runs in one process, and {number} were started: run it without torchrun, which "
            "`analyze`, `train` and gates in a training of your own (docs/gates.md) work under"
        )
