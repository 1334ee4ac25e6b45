"""Example sentences: the contents of `examples.json`."""

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import UInt8

from headcount.core import JsonObject
from headcount.results.sealing import write_record

_IMAGE = re.compile(r"data:image/(png|jpeg);base64,[A-Za-z0-9+/]+=*")
"""Pattern of an image within a page."""


@final
@dataclass(frozen=True, eq=False)
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
    weights_QK: UInt8[np.ndarray, "query key"]
    """Attention weights; 255 is the weight 1."""
    arcs: tuple[tuple[int, int], ...]
    """Pairs (query, key) that the role is about."""
    image: str = ""
    """The image, made small, as the text of a `data:` address; empty for a sentence."""
    largest: tuple[float, ...] = ()
    """On an image, the weight of each query that 255 stands for, in place of 1."""

    def to_json(self) -> dict[str, Any]:
        """One entry of `examples.json`; weights are Base64 of one byte each, row by row."""
        return {
            "role": self.role,
            "caption": self.caption,
            "queries": list(self.queries),
            "keys": list(self.keys),
            "weights": base64.b64encode(self.weights_QK.tobytes()).decode(),
            "arcs": [list(arc) for arc in self.arcs],
        } | ({"image": self.image, "largest": [*self.largest]} if self.image else {})

    @classmethod
    def from_json(cls, found: JsonObject) -> "Example":
        """The example in one entry of a file.

        Raises:
            InputError: if a field is missing, has another type, or does not fit the words.
        """
        stored = found.decode(_Stored)
        try:
            return stored.example()
        except ValueError as error:  # binascii's error is one
            raise found.damaged(error) from error


@final
@dataclass(frozen=True)
class _Stored:
    """An example as JSON holds it."""

    role: str
    caption: str
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    weights: str
    arcs: tuple[tuple[int, ...], ...]
    image: str = ""
    largest: tuple[float, ...] = ()

    def example(self) -> Example:
        shape = (len(self.queries), len(self.keys))
        flat = np.frombuffer(base64.b64decode(self.weights, validate=True), dtype=np.uint8)
        pairs = [arc for arc in self.arcs if len(arc) == 2]
        arcs = tuple((query, key) for query, key in pairs if query in range(shape[0]))
        if len(arcs) < len(self.arcs) or any(key not in range(shape[1]) for _, key in arcs):
            raise ValueError(f"expected arcs inside {shape[0]} x {shape[1]} words, got {self.arcs}")
        if self.image and not _IMAGE.fullmatch(self.image):
            raise ValueError(f"expected an image as a data: address, got {self.image[:40]!r}")
        if self.image and len(self.largest) != shape[0]:
            raise ValueError(f"expected {shape[0]} largest weights, got {len(self.largest)}")
        weights_QK = flat.reshape(shape)
        return Example(
            role=self.role,
            caption=self.caption,
            queries=self.queries,
            keys=self.keys,
            weights_QK=weights_QK,
            arcs=arcs,
            image=self.image,
            largest=self.largest,
        )


def read_examples(path: Path) -> dict[str, tuple[Example, ...]]:
    """The examples by head name; empty if there is no such file.

    Raises:
        InputError: if the file is damaged.
    """
    if not path.exists():
        return {}
    found = JsonObject.read(path, "headcount analyze")
    return {
        head: tuple(map(Example.from_json, found.field(head, tuple[JsonObject, ...])))
        for head in found.values
    }


def write_examples(path: Path, examples: Mapping[str, Sequence[Example]]) -> None:
    """Write the examples by head name, completely or not at all."""
    write_record(path, {head: [one.to_json() for one in found] for head, found in examples.items()})
