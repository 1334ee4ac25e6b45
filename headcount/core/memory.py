"""Memory: how much this process may still take, of the machine, its container and its limits."""

import ctypes
import gc
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from shutil import disk_usage

from headcount.core.errors import InputError

try:
    import resource
except ImportError:  # Windows has none
    resource = None


_UNLIMITED = 2**60
"""Limits of containers from here on are none: version 1 writes the largest number that it has."""


def free_memory(root: Path = Path("/")) -> int | None:
    """Bytes that this process can still take; None where the system does not say.

    The least of what the machine has, of what every container around the process allows (cgroups of
    versions 1 and 2; what is only cached counts as free), and of the limit of `ulimit -v`.

    Args:
        root: the folder that holds `proc` and `sys`.
    """
    found = [*_of_machine(root), *_of_containers(root), *_of_limit(root)]
    return max(0, min(found)) if found else None


def peak_memory() -> int | None:
    """Bytes of main memory that this process had at its peak; None where that is not known."""
    if resource is None:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def release_memory() -> None:
    """Give memory of objects that are gone back to the system.

    The allocator of glibc keeps it for later objects: after a model was made for a trial, that is
    most of the model. Other allocators have no `malloc_trim`, and nothing is asked of them.
    """
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def _of_machine(root: Path) -> Iterator[int]:
    with suppress(OSError):
        text = (root / "proc/meminfo").read_text(encoding="utf-8")
        if available := re.search(r"^MemAvailable:\s+(\d+) kB$", text, re.MULTILINE):
            yield int(available[1]) * 1024


def _of_containers(root: Path) -> Iterator[int]:
    """What each group around this process leaves, from the innermost one."""
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, place = line.split(":", 2)
            version = 2 if not controllers else 1
            if version == 2 or "memory" in controllers.split(","):
                top = root / "sys/fs/cgroup" / ("" if version == 2 else "memory")
                inner = top / place.lstrip("/")
                for folder in (inner, *inner.parents):
                    if folder.is_relative_to(top):
                        yield from _of_group(folder, version)


def _of_group(folder: Path, version: int) -> Iterator[int]:
    """What one group leaves; nothing if it has no limit or is not visible from here."""
    names = {
        1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        2: ("memory.max", "memory.current", "inactive_file"),
    }
    limit_name, used_name, cached_name = names[version]
    with suppress(OSError, ValueError):  # "max" is no number
        limit = int((folder / limit_name).read_text(encoding="utf-8"))
        used = int((folder / used_name).read_text(encoding="utf-8"))
        if limit < _UNLIMITED:
            stat = (folder / "memory.stat").read_text(encoding="utf-8")
            cached = re.search(rf"^{cached_name} (\d+)$", stat, re.MULTILINE)
            yield limit - used + (int(cached[1]) if cached else 0)


def _of_limit(root: Path) -> Iterator[int]:
    """What the limit of this process's addresses leaves, which `ulimit -v` sets."""
    if resource is None or sys.platform != "linux":
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    with suppress(OSError, ValueError):
        pages = int((root / "proc/self/statm").read_text(encoding="utf-8").split()[0])
        if limit != resource.RLIM_INFINITY:
            yield limit - pages * resource.getpagesize()


def check_disk(folder: Path, num_bytes: int, what: str, advice: str) -> None:
    """Check that files fit on the disk.

    Args:
        folder: folder of the files; it must exist.
        num_bytes: their size.
        what: what they hold, for the error.
        advice: what to do, for the error.

    Raises:
        InputError: if they do not.
    """
    free = disk_usage(folder).free
    if num_bytes > free:
        raise InputError(
            f"Expected {size_in_words(num_bytes)} of free disk for {what} in {folder}, got "
            f"{size_in_words(free)}. {advice}"
        )


def check_free_memory(num_bytes: int, what: str) -> None:
    """Check that what is held in main memory fits, before any of it is there.

    Args:
        num_bytes: its size, at least.
        what: what it holds, for the error.

    Raises:
        InputError: if it does not.
    """
    free = free_memory()
    if free is not None and num_bytes > free:
        raise InputError(
            f"Expected {size_in_words(num_bytes)} of free memory for {what}, got "
            f"{size_in_words(free)}. Ask for fewer."
        )


def size_in_words(num_bytes: int) -> str:
    """A size in words.

    >>> size_in_words(1_500_000), size_in_words(2_340_000_000)
    ('1.5 MB', '2.34 GB')
    """
    if num_bytes < 1e9:
        return f"{num_bytes / 1e6:,.1f} MB"
    return f"{num_bytes / 1e9:,.2f} GB"
