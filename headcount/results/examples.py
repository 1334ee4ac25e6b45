"""Example sentences: the contents of `examples.json`."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import UInt8

from headcount.core import JsonObject, omitted

_IMAGE = re.compile(r"data:image/(png|jpeg);base64,[A-Za-z0-9+/]+=*")
"""Pattern of an image within a page."""


@final
@dataclass(frozen=True)
class Example:
    """One sentence, or one image, as one head sees it."""

    role: str
    """Role that the sentence shows; `none` for a head without a role."""
    caption: str
    """How well the sentence shows the role, in words."""
    queries: tuple[str, ...]
    """Words that attend."""
    keys: tuple[str, ...]
    """Words that are attended to."""
    weights: bytes
    """Attention weights, a byte each, row by row; 255 is the weight 1."""
    arcs: tuple[tuple[int, int], ...]
    """Pairs (query, key) that the role is about."""
    image: str = omitted("")
    """The image, made small, as the text of a `data:` address; empty for a sentence."""
    largest: tuple[float, ...] = omitted(())
    """On an image, the weight of each query that 255 stands for, in place of 1."""

    def __post_init__(self) -> None:
        shape = (len(self.queries), len(self.keys))
        if len(self.weights) != shape[0] * shape[1]:
            raise ValueError(f"expected {shape[0]} x {shape[1]} weights, got {len(self.weights)}")
        for arc in self.arcs:
            if arc[0] not in range(shape[0]) or arc[1] not in range(shape[1]):
                raise ValueError(f"expected arcs inside {shape[0]} x {shape[1]} words, got {arc}")
        if self.image and not _IMAGE.fullmatch(self.image):
            raise ValueError(f"expected an image as a data: address, got {self.image[:40]!r}")
        if self.image and len(self.largest) != shape[0]:
            raise ValueError(f"expected {shape[0]} largest weights, got {len(self.largest)}")

    @property
    def weights_QK(self) -> UInt8[np.ndarray, "query key"]:
        """The weights by query and key."""
        return np.frombuffer(self.weights, np.uint8).reshape(len(self.queries), len(self.keys))


def read_examples(path: Path) -> dict[str, tuple[Example, ...]]:
    """The examples by head name; empty if there is no such file.

    Raises:
        InputError: if the file is damaged.
    """
    if not path.exists():
        return {}
    found = JsonObject.read(path, "headcount analyze")
    return {head: found.field(head, tuple[Example, ...]) for head in found.values}
