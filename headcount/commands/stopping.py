"""Stopping: signals that end a command end it as Ctrl-C does, with everything cleaned up.

A command that does not end at once (it computes outside of Python, or saves) has some seconds to:
schedulers kill it after 10 or more. What it wrote stays complete.

Advice: what a user can do about an error of the system, such as a full disk, which ends a command;
and torchrun learns why a process ends.
"""

import errno
import os
import signal
import sys
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread, current_thread, main_thread
from types import FrameType
from typing import final

from headcount.core import capital, ended, is_alone, reason, write_json

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
"""Signals by Ctrl-C, by `kill`, and by a terminal that is closed; Windows lacks the last one."""

TOLD = NAMES[1:]
"""Signals that others send: a scheduler, a shell that ends."""

PATIENCE = 8.0
"""Seconds after one of `TOLD` until a command that goes on is ended."""

LATE = (
    f"headcount: stopped, {PATIENCE:.0f} s after the signal, in the middle of a computation or a "
    "save; with --resume, a command that has it goes on from the state before\n"
)


@final
class Stop:
    """The signal that stopped a command."""

    number: int | None = None
    """Number of the signal; None while no signal came."""

    def signalled(self, number: int, _: FrameType | None) -> None:
        """Raise what Ctrl-C raises."""
        self.number = number
        raise KeyboardInterrupt

    @property
    def status(self) -> int:
        """The exit status after the signal, as shells give it."""
        return 128 + (self.number or signal.SIGINT)


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Turn signals into `KeyboardInterrupt` within the block.

    A signal that is ignored, as under `nohup`, stays ignored.
    """
    stop, before = Stop(), {}
    if current_thread() is not main_thread():
        yield stop
        return
    for number in _numbers(NAMES):
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, stop.signalled)
    try:
        with _impatient({*before} & {*_numbers(TOLD)}):
            yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _numbers(names: Iterable[str]) -> list[int]:
    return [getattr(signal, name) for name in names if hasattr(signal, name)]


@contextmanager
def _impatient(numbers: Collection[int]) -> Iterator[None]:
    """End the process if the block goes on for long after one of these signals.

    The system writes the number of a signal into a pipe at once; Python calls a handler only once
    the main thread is back from a call outside of Python.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    ended = Event()

    def watch() -> None:
        while found := os.read(reading, 1):
            if found[0] in numbers and not ended.wait(PATIENCE):
                os.write(2, LATE.encode())
                os._exit(128 + found[0])

    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    watching = Thread(target=watch, name="stopping", daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        signal.set_wakeup_fd(before)
        os.close(writing)
        watching.join()
        os.close(reading)


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

CLOSED = (
    *("Connection closed by peer", "Connection reset by peer", "Broken pipe"),
    "Connection was likely closed",
)
"""What gloo and torch's store say if another process of a run ended."""
UNANSWERED = ("clients joined", "client socket has timed out", "Timed out waiting", "wait timeout")
"""What torch.distributed and gloo say if another process was waited for in vain."""


REPORTED = "TORCHELASTIC_ERROR_FILE"
"""Variable in which torchrun names the file that it reads after a process ended with an error."""


def tell_launcher(why: str) -> None:
    """Tell torchrun why this process ends, which its own report of all processes then shows.

    Reference: `torch.distributed.elastic.multiprocessing.errors`, whose `record` writes the same
        file for exceptions that leave `main`, with a traceback in place of the message.
    """
    if file := os.environ.get(REPORTED):
        extra = {"timestamp": str(int(time.time()))}
        with suppress(OSError):  # the process ends with its own sentence in any case
            write_json(Path(file), {"message": {"message": why, "extraInfo": extra}})


def advice(error: BaseException, options: Collection[str] = ()) -> str | None:
    """The advice for one of these errors; None for any other.

    Args:
        error: The error.
        options: The names of the options that the command has.
    """
    return (
        full_disk(error)
        or full_memory(error, options)
        or refused_path(error)
        or lost_process(error)
    )


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


LESS_MEMORY = {
    "max_tokens": "lower --max-tokens",
    "set": "lower batch_tokens with --set",
    "lengths": "give smaller --lengths",
    "length": "give a smaller --length or --batch",
    "dtype": "use --dtype bfloat16",
    "resume": "add --resume",
}
"""What takes less memory, by the option that it needs."""


def full_memory(error: BaseException, options: Collection[str] = ()) -> str | None:
    """The advice for an error that full memory caused, of a GPU or of the machine."""
    torch, words = sys.modules.get("torch"), reason(error)
    is_full = isinstance(error, MemoryError) or NO_MEMORY in str(error)
    if not is_full and (torch is None or not isinstance(error, torch.OutOfMemoryError)):
        return None
    known = [text for name, text in LESS_MEMORY.items() if name in options]
    less = ", ".join(known) or "give shorter texts, or a smaller model"
    return f"The device is out of memory ({words}). {capital(less)}."


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
        return str(ended(found[0]))
    if any(words in str(error) for words in UNANSWERED):
        return (
            f"Another process of this run did not come or did not answer ({reason(error)}). Look "
            "whether all were started, then start all of them again, with --resume if the command "
            "has that option."
        )
    return None
