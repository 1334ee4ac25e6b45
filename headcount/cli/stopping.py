"""Stopping: signals that end a command end it as Ctrl-C does, with everything cleaned up."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType
from typing import final

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
"""Signals by Ctrl-C, by `kill`, and by a terminal that is closed; Windows lacks the last one."""


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
    if current_thread() is main_thread():
        for number in (getattr(signal, name) for name in NAMES if hasattr(signal, name)):
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, stop.signalled)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
