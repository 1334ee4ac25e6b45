"""Lock files: they stand in for locks where the file system, or Windows, has none.

A lock file names the process that writes, and that process touches it every few seconds. One that
was not touched for long is stale. It is taken over only within `taking_over`: what looks like a
process that has ended may be one that sleeps, or that was cut off from the network.

Locking: one process at a time writes into a folder; the system unlocks it for a killed one.
"""

import atexit
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from socket import gethostname
from tempfile import TemporaryFile
from threading import Event, Thread
from typing import final

from headcount.core.distributed import is_main_process
from headcount.core.errors import InputError
from headcount.core.files import LOCK, is_running, put
from headcount.core.wording import amount

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None


HEARTBEAT = 15.0
"""Seconds between two touches of a lock file."""
STALE = 120.0
"""Seconds without a touch after which a lock file is stale: other machines may see one late."""

_TAKES_OVER = ContextVar("_TAKES_OVER", default=False)
_FILES: dict[Path, Event] = {}
"""Lock files of this process, and what ends the touches of each."""


@contextmanager
def taking_over(takes: bool = True) -> Iterator[None]:
    """Take over stale lock files within the block; do nothing if not `takes`."""
    token = _TAKES_OVER.set(takes)
    try:
        yield
    finally:
        _TAKES_OVER.reset(token)


@final
@dataclass(frozen=True)
class _Found:
    """A lock file of another process."""

    text: str
    host: str | None
    """Name of its machine; None if the file is damaged."""
    process: int | None
    """Its number; None if the file is damaged."""
    age: float
    """Seconds since it touched the file."""

    @classmethod
    def at(cls, path: Path) -> "_Found | None":
        """What a lock file says; None if it has gone."""
        try:
            # Opening makes a network file system look. Ages are by its clock; machines differ.
            with TemporaryFile(dir=path.parent) as new, path.open(encoding="utf-8") as file:
                age = os.fstat(new.fileno()).st_mtime - os.fstat(file.fileno()).st_mtime
                text = file.read()
        except FileNotFoundError:
            return None
        except UnicodeDecodeError:
            return cls("", None, None, age)
        with suppress(ValueError, KeyError, TypeError):
            found = json.loads(text)
            return cls(text, str(found["host"]), int(found["process"]), age)
        return cls(text, None, None, age)

    @property
    def is_stale(self) -> bool:
        """Whether the process has ended, as far as one can tell from here."""
        is_here = self.host == gethostname() and self.process is not None
        return self.age > STALE or (is_here and not is_running(self.process or 0))

    def __str__(self) -> str:
        return "a process" if self.host is None else f"process {self.process} on {self.host}"


def take(path: Path, named: Path) -> None:
    """Make a lock file, until `give_back` or the end of this process.

    Args:
        path: the file.
        named: what it locks, for the message.

    Raises:
        InputError: if there is one of another process, or a stale one outside of `taking_over`.
    """
    if not _made(path):
        found = None if path in _FILES else _Found.at(path)
        if path in _FILES or (found is not None and not found.is_stale):
            raise _busy(named, found)
        if found is not None and not _TAKES_OVER.get():
            raise InputError(
                f"Expected {named} to be free, but {found} was writing it, and has not touched "
                f"{path} for {amount(round(found.age), 'second')}. If that process has ended, add "
                "--take-over; otherwise wait until it ends, or name another folder."
            )
        if found is not None:
            _move_away(path, found, named)
        if not _made(path):  # another process was first
            raise _busy(named, _Found.at(path))
    _stop(path)
    if not _FILES:
        atexit.register(_give_all_back)
    _FILES[path] = Event()
    Thread(target=_touch, args=(path, _FILES[path]), name="lock file", daemon=True).start()


def give_back(path: Path) -> None:
    """Remove a lock file, if it is still this process's own."""
    _stop(path)
    with suppress(OSError):
        if path.read_text(encoding="utf-8") == _own():
            path.unlink()


def _stop(path: Path) -> None:
    if path in _FILES:
        _FILES.pop(path).set()  # ends its touches


def _own() -> str:
    return json.dumps({"host": gethostname(), "process": os.getpid()})


def _made(path: Path) -> bool:
    """Whether the file could be made; one that is there stays."""
    try:
        opened = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    except FileExistsError:
        return False
    with os.fdopen(opened, "w", encoding="utf-8") as file:
        file.write(_own())
    return True


def _move_away(path: Path, stale: _Found, named: Path) -> None:
    """Remove a stale file, and not the one of a process that has just taken it over.

    Raises:
        InputError: if another process was first.
    """
    aside = path.with_name(f"{path.name}.{gethostname()}.{os.getpid()}")
    with suppress(FileNotFoundError):
        put(path, aside)
        found = _Found.at(aside)
        if found is not None and found.text != stale.text:
            put(aside, path)
            raise _busy(named, found)
        aside.unlink()


def _busy(named: Path, found: _Found | None) -> InputError:
    who = "" if found is None or found.host is None else f" ({found})"
    return InputError(
        f"Another process{who} is writing {named}. Wait until it ends, or name another folder."
    )


def _touch(path: Path, ended: Event) -> None:
    """Touch a file until the end, or until another process has taken it over."""
    while not ended.wait(HEARTBEAT):
        with suppress(OSError):  # its folder was moved, or the network is gone for a while
            if path.read_text(encoding="utf-8") != _own():
                return
            os.utime(path)


def _give_all_back() -> None:
    for path in list(_FILES):
        give_back(path)


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
        raise _busy(named, None) from error
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
