"""Choices: what every head chose in a window, as bits, so that a run can keep them."""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Int


@final
@dataclass(frozen=True)
class Choices:
    """Right choices in a window, and the names that heads chose in GAP's."""

    hits: str
    """Whether each head is right in each case, as bits in hexadecimal digits."""
    shape: tuple[int, ...]
    """Numbers of heads and of cases."""
    names: str | None = None
    """The name, 0 or 1, that each head chooses; None if nothing is asked."""

    @classmethod
    def of(
        cls, hits_HC: Int[np.ndarray, "head case"], name_H: Int[np.ndarray, " head"] | None
    ) -> "Choices":
        """The choices of a window: whether they are right, and the name that each head chooses."""
        names = None if name_H is None else _packed(name_H)
        return cls(_packed(hits_HC), hits_HC.shape, names)

    @property
    def hits_HC(self) -> Int[np.ndarray, "head case"]:
        """Whether each head is right in each case."""
        return _unpacked(self.hits, int(np.prod(self.shape))).reshape(self.shape)

    @property
    def name_H(self) -> Int[np.ndarray, " head"] | None:
        """The name, 0 or 1, that each head chooses; None if nothing is asked."""
        return None if self.names is None else _unpacked(self.names, self.shape[0])


def _packed(bits: Int[np.ndarray, "..."]) -> str:
    return np.packbits(bits.astype(bool)).tobytes().hex()


def _unpacked(text: str, size: int) -> Int[np.ndarray, " bit"]:
    packed = np.frombuffer(bytes.fromhex(text), np.uint8)
    return np.unpackbits(packed, count=size).astype(int)
