"""Programs of encoders that read two segments, each of which a separator ends."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from jaxtyping import Float, Int

from headcount.testing.alone import Alone
from headcount.testing.programs import Family, Planted
from headcount.testing.tokens import BITS, drawn

Segments = tuple[Int[np.ndarray, "token bit"], Int[np.ndarray, "other bit"]]
"""Bits of the tokens of two segments, without their separators."""


@final
@dataclass(frozen=True)
class Pairs(Alone[Segments]):
    """Heads of an encoder that says of two segments, from its first token, which class they are.

    A separator has no bits: a head that looks at the last one can only read what another one has
    told there, which is the last token.
    """

    site: ClassVar[str] = "encoder.self"
    families: ClassVar[tuple[Family, ...]] = ("pairs",)
    kinds = ("offset", "first", "separator", "segment", "tell", "idle")

    def read(self, planted: Planted, example: Segments) -> Float[np.ndarray, " label"]:
        """What a head reads at the first token."""
        end = np.zeros((1, BITS), int)
        bits_TK = np.concatenate([example[0], end, example[1], end])
        match planted.kind:
            case "segment":
                return bits_TK[: len(example[0]) + 1, planted.bit].mean(keepdims=True)
            case "separator":
                at = len(bits_TK) - 1
            case "offset":
                at = max(planted.offset, 0)
            case other:
                raise ValueError(f"Expected a kind that reads something, got {other}.")
        return bits_TK[[max(at - planted.reads_told, 0)], planted.bit].astype(float)

    def texts(self, number: int, seed: int) -> list[Segments]:
        """Two segments of 6 to 12 tokens each."""
        rng = np.random.default_rng((9, seed))
        lengths = rng.integers(6, 13, (number, 2)).tolist()
        return [(drawn(rng, (one,)), drawn(rng, (other,))) for one, other in lengths]
