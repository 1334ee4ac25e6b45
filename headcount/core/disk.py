"""Disk: numbers in memory maps, whose size is known before anything is computed."""

from pathlib import Path
from shutil import disk_usage

import numpy as np

from headcount.core.errors import InputError
from headcount.core.files import flush, make_folder


def memory_map(path: Path, size: int) -> np.memmap:
    """A file of float16 numbers, of which a new one is zeros."""
    make_folder(path.parent)
    is_there = path.exists() and path.stat().st_size == size * np.dtype(np.float16).itemsize
    found = np.memmap(path, dtype=np.float16, mode="r+" if is_there else "w+", shape=(size,))
    if not is_there:
        flush(path)  # its size and name; the numbers follow when the map is flushed
    return found


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


def size_in_words(num_bytes: int) -> str:
    """A size in words.

    >>> size_in_words(1_500_000), size_in_words(2_340_000_000)
    ('1.5 MB', '2.34 GB')
    """
    if num_bytes < 1e9:
        return f"{num_bytes / 1e6:,.1f} MB"
    return f"{num_bytes / 1e9:,.2f} GB"
