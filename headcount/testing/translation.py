"""Programs of encoder-decoders, which translate token by token, so that all links are known."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from jaxtyping import Float, Int

from headcount.testing.alone import Alone
from headcount.testing.programs import Family, Planted, sigmoid
from headcount.testing.tokens import BITS, drawn

Pair = tuple[Int[np.ndarray, "token bit"], Int[np.ndarray, "token bit"]]
"""Bits of the tokens of a source and of its target, which are equally many."""


@final
@dataclass(frozen=True)
class Translation(Alone[Pair]):
    """Heads of an encoder-decoder, what they look at, and what that is worth.

    Target token t predicts itself from what stands before it. A head of cross-attention looks at an
    offset from the source's token t, one of the decoder at an offset from the target's token t - 1;
    of both, the first token stands in for those before it. Such heads are needed, silent or idle;
    heads of the encoder tell what the token before is, or are idle.
    """

    site: ClassVar[str] = "decoder.cross"
    families: ClassVar[tuple[Family, ...]] = ("translator",)
    kinds = ("offset", "tell", "idle")

    def read(self, planted: Planted, example: Pair) -> Float[np.ndarray, " token"]:
        """What a head reads at every token of the target; 0 of the start of the target."""
        source_TK, target_TK = example
        at_T = np.arange(len(target_TK)) + planted.offset
        if planted.head.site == "decoder.cross":
            at_T = at_T.clip(0, len(source_TK) - 1) - planted.reads_told
            return source_TK[at_T.clip(0), planted.bit].astype(float)
        before_TK = np.concatenate([np.zeros((1, BITS), int), target_TK[:-1]])
        return before_TK[at_T.clip(0), planted.bit].astype(float)

    def pairs(self, number: int, seed: int, shortest: int = 8, longest: int = 16) -> list[Pair]:
        """Sources and their targets, whose bits agree with what heads read."""
        rng = np.random.default_rng((5, seed))
        found = list[Pair]()
        for length in rng.integers(shortest, longest + 1, number).tolist():
            source_TK, target_TK = drawn(rng, (2, length))
            for at in range(length):
                for label in self.labels:
                    (writer,) = self.writers(label)
                    read = self.read(writer, (source_TK, target_TK))[at]
                    is_one = rng.random() < sigmoid(writer.evidence * read)
                    target_TK[at, label] = 1 if is_one else -1
            found.append((source_TK, target_TK))
        return found
