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
    if fcntl is None:
        yield
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        _lock(opened, named or folder)
        yield
    finally:
        os.close(opened)


def _lock(opened: int, named: Path) -> None:
    assert fcntl is not None
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise InputError(
            f"Another process is writing {named}. Wait until it ends, or name another folder."
        ) from error
    except OSError:  # some network file systems can't lock
        return


_HELD: dict[tuple[int, int], int] = {}
"""Open folders that this process holds, by device and number of the folder."""


def hold(folder: Path) -> None:
    """Lock an existing folder of results until `release`, or until this process ends.

    Raises:
        InputError: if another process holds it.
    """
    if fcntl is None:
        return
    opened = os.open(folder, os.O_RDONLY)
    found = os.fstat(opened)
    key = (found.st_dev, found.st_ino)
    if key in _HELD:
        os.close(opened)
        return
    try:
        _lock(opened, folder)
    except InputError:
        os.close(opened)
        raise
    _HELD[key] = opened


def release() -> None:
    """Unlock all folders that this process holds."""
    while _HELD:
        os.close(_HELD.popitem()[1])
