"""Random programs of one to eight planted heads, and what a right answer about them is."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from headcount.core import Head
from headcount.testing import Family, Kind, Known, Planted, Program, Purpose

PURPOSES: tuple[tuple[Purpose, float], ...] = (
    ("needed", 0.5),
    ("silent", 0.2),
    ("noise", 0.1),
    ("backup", 0.1),
    ("undo", 0.1),
)
"""What planted heads are for, and how often."""
LABELS = 7


@final
@dataclass(frozen=True)
class Drawing:
    """Choices of one random program, head by head."""

    rng: np.random.Generator
    site: str
    layers: int
    heads: int
    kinds: tuple[Kind, ...]
    most: int
    """Largest offset."""

    def planted(self) -> tuple[Planted, ...]:
        """One to eight planted heads, at least one of which is needed."""
        free = [Head(self.site, k, i) for k in range(self.layers) for i in range(self.heads)]
        self.rng.shuffle(free)  # type: ignore[arg-type]
        labels, found = [*self.rng.permutation(LABELS).tolist()], list[Planted]()
        number = int(self.rng.integers(1, 9))
        while len(found) < number and labels:
            names, shares = zip(*PURPOSES, strict=True)
            purpose = str(self.rng.choice(names, p=shares)) if found else "needed"
            has_copy = any(each.kind == "copy" for each in found)
            found += self._added(purpose, free, labels, has_copy)  # type: ignore[arg-type]
        return tuple(found)

    def _added(
        self, purpose: Purpose, free: list[Head], labels: list[int], has_copy: bool
    ) -> Iterator[Planted]:
        kind = str(self.rng.choice(self.kinds))
        head = free.pop()
        if kind == "copy":  # reads what another head has told in a layer before
            told = [each for each in free if each.layer < head.layer]
            if has_copy or not told or purpose not in ("needed", "silent"):
                kind = "offset"
            else:
                free.remove(told[0])
                yield Planted(told[0], "tell", "needed" if purpose == "needed" else "silent")
        about: dict[str, Any] = {"kind": kind, "bit": int(self.rng.integers(LABELS))}
        if kind == "offset":
            about["offset"] = int(self.rng.integers(-self.most, 1 + self._ahead))
            about["is_gated"] = about["offset"] != 0 and bool(self.rng.random() < 0.2)
        if purpose != "silent":
            about["label"] = labels.pop()
            about["evidence"] = 1.0 if purpose == "noise" else 3.0
        first = Planted(head=head, purpose=purpose, **about)
        yield first
        if purpose in ("backup", "undo"):
            sign = 1 if purpose == "backup" else -1
            yield replace(first, head=free.pop(), evidence=sign * first.evidence)

    @property
    def _ahead(self) -> int:
        return self.most if self.site == "encoder.self" else 0


def drawn_program(
    seed: int, family: Family, layers: tuple[int, int] = (2, 4), heads: int = 4
) -> Program:
    """The program of a seed."""
    rng = np.random.default_rng((4, seed))
    is_causal = family != "encoder"
    kinds: tuple[Kind, ...] = ("offset", "offset", "first", "punctuation", "rare", "mean", "copy")
    site = "decoder.self" if is_causal else "encoder.self"
    depth = int(rng.integers(layers[0], layers[1] + 1))
    most = 6 if is_causal else 4
    drawing = Drawing(rng, site, depth, heads, kinds if is_causal else kinds[:-1], most)
    return Program(drawing.planted(), depth, heads, site)


def drawn(seed: int, family: Family, texts: int = 100, layers: tuple[int, int] = (2, 4)) -> Known:
    """The model of a seed's program, with texts that follow it."""
    return Known.of(drawn_program(seed, family, layers), family, texts, seed)
