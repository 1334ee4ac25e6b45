"""Locking: one process at a time writes into a folder; the system unlocks it for a killed one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headcount.core.errors import InputError

try:
    import fcntl
except ImportError:  # Windows has none; two processes are not noticed there
    fcntl = None


@contextmanager
def locked(folder: Path, named: Path | None = None) -> Iterator[None]:
    """Lock an existing folder within the block.

    Args:
        folder: the folder to lock.
        named: the folder for the message, if the user knows it by another name.

    Raises:
        InputError: if another process holds the lock.
    """
    opened = os.open(folder, os.O_RDONLY)
    try:
        _lock(opened, named or folder)
        yield
    finally:
        os.close(opened)


def _lock(opened: int, named: Path) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise InputError(
            f"Another process is writing {named}. Wait until it ends, or name another folder."
        ) from error
    except OSError:  # some network file systems can't lock
        return
