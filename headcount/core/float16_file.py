"""Numbers on disk in a memory map, whose size is known before anything is computed."""

from pathlib import Path

import numpy as np

from headcount.core.files import flush, make_folder


class Float16File:
    """A file of float16 numbers in a memory map, of which a new one is zeros.

    Args:
        path: the file; nothing is written before it is opened.
        shape: shape of the numbers.
    """

    def __init__(self, path: Path, *shape: int) -> None:
        self.path, self.shape = path, shape
        self._map: np.memmap | None = None

    @property
    def num_bytes(self) -> int:
        """Size of the file."""
        return int(np.prod(self.shape)) * np.dtype(np.float16).itemsize

    def open(self) -> None:
        """Open the file; it is created if it does not exist, or has another size."""
        is_there = self.path.exists() and self.path.stat().st_size == self.num_bytes
        make_folder(self.path.parent)
        mode = "r+" if is_there else "w+"
        self._map = np.memmap(self.path, dtype=np.float16, mode=mode, shape=self.shape)
        if not is_there:
            flush(self.path)  # its size and name; the numbers follow when the map is flushed

    @property
    def numbers(self) -> np.memmap:
        """The numbers of the opened file."""
        assert self._map is not None
        return self._map

    def flush(self) -> None:
        """Write everything to disk."""
        self.numbers.flush()
