"""What heads chose in the windows that are done, in memory and in a checkpoint.

A run that is killed resumes with the same batches, of which those that are stored are left out, so
that it ends with the same numbers.
"""

import time
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Int

from headcount.core import read_checkpoint, write_checkpoint

EVERY = 10.0
"""Number of seconds between two checkpoints."""


@final
class SavedChoices:
    """Right choices of every window that is done, and the names that heads chose in GAP's.

    Args:
        file: the checkpoint; None stores nothing.
        key: what the choices depend on; a checkpoint with another key is refused.

    Raises:
        InputError: if the checkpoint is damaged or belongs to another run.
    """

    def __init__(self, file: Path | None, key: str) -> None:
        self._file, self._key, self._last = file, key, time.monotonic()
        self._done = read_checkpoint(file, key, "the antecedents of the windows that are done")

    def __len__(self) -> int:
        return len(self._done)

    def __contains__(self, window: int) -> bool:
        return str(window) in self._done

    def add(
        self,
        window: int,
        hits_HC: Int[np.ndarray, "head case"],
        name_H: Int[np.ndarray, " head"] | None,
    ) -> None:
        """Add a window: whether each head is right in each case, and the name that it chooses."""
        one: dict[str, Any] = {"hits": _packed(hits_HC), "shape": list(hits_HC.shape)}
        if name_H is not None:
            one["names"] = _packed(name_H)
        self._done[str(window)] = one

    def hits(self, window: int) -> Int[np.ndarray, "head case"]:
        """Whether each head is right in each case of a window."""
        one = self._done[str(window)]
        size = int(np.prod(one["shape"]))
        return _unpacked(one["hits"], size).reshape(one["shape"])

    def names(self, window: int) -> Int[np.ndarray, " head"] | None:
        """The name, 0 or 1, that each head chooses in a window; None if nothing is asked."""
        one = self._done[str(window)]
        return _unpacked(one["names"], one["shape"][0]) if "names" in one else None

    def save(self) -> None:
        """Write a checkpoint if the last one is some seconds old; batches must be complete."""
        if time.monotonic() - self._last >= EVERY:
            write_checkpoint(self._file, self._key, self._done)
            self._last = time.monotonic()


def _packed(bits: Int[np.ndarray, "..."]) -> str:
    return np.packbits(bits.astype(bool)).tobytes().hex()


def _unpacked(text: str, size: int) -> Int[np.ndarray, " bit"]:
    packed = np.frombuffer(bytes.fromhex(text), np.uint8)
    return np.unpackbits(packed, count=size).astype(int)
