"""Locking: one process at a time writes into a folder; the system unlocks it for a killed one."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from headcount.core.distributed import is_main_process
from headcount.core.errors import InputError
from headcount.core.files import LOCK
from headcount.core.lock_file import give_back, take

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None


@contextmanager
def locked(folder: Path, named: Path | None = None) -> Iterator[None]:
    """Lock an existing folder within the block, in which it may be moved.

    Args:
        folder: the folder to lock.
        named: the folder for the message, if the user knows it by another name.

    Raises:
        InputError: if another process holds the lock, or a stale lock file.
    """
    unlock = _lock(folder, folder.with_name(f"{folder.name}.lock"), named or folder)
    try:
        yield
    finally:
        unlock()


def _lock(folder: Path, stand_in: Path, named: Path) -> Callable[[], None]:
    """Lock a folder, by a file where its file system can't; returns what unlocks it."""
    with ExitStack() as taken:
        is_locked = False
        if fcntl is not None:
            opened = os.open(folder, os.O_RDONLY)  # until the end: no other gets its number
            taken.callback(os.close, opened)
            is_locked = _is_locked(opened, named)
        if not is_locked:
            take(stand_in, named)
            taken.callback(give_back, stand_in)
        return taken.pop_all().close


def _is_locked(opened: int, named: Path) -> bool:
    """Lock an open folder; False if its file system can't."""
    assert fcntl is not None
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise InputError(
            f"Another process is writing {named}. Wait until it ends, or name another folder."
        ) from error
    except OSError:  # NFS locks no folders, other network file systems nothing
        return False
    return True


_HELD: dict[tuple[int, int], Callable[[], None]] = {}
"""What unlocks the folders that this process holds, by device and number of the folder."""


def hold(folder: Path) -> None:
    """Lock an existing folder of results until `release`, or until this process ends.

    The main process holds it, for all processes of a run.

    Raises:
        InputError: if another process holds it, or a stale lock file.
    """
    if not is_main_process():
        return
    found = os.stat(folder)
    key = (found.st_dev, found.st_ino)
    if key not in _HELD:
        _HELD[key] = _lock(folder, folder / LOCK, folder)


def release() -> None:
    """Unlock all folders that this process holds."""
    while _HELD:
        _HELD.popitem()[1]()
