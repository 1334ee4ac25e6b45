"""Stopping: signals that end a command end it as Ctrl-C does, with everything cleaned up.

A command that does not end at once (it computes outside of Python, or saves) has some seconds to:
schedulers kill it after 10 or more. What it wrote stays complete.
"""

import os
import signal
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from threading import Event, Thread, current_thread, main_thread
from types import FrameType
from typing import final

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
