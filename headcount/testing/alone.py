"""Programs in which each bit of a label has one head that writes it, of any kind of input.

Of them are encoders that read two segments, each of which a separator ends, and encoder-decoders,
which translate token by token, so that all links are known.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar, final

import numpy as np
from jaxtyping import Float, Int

from headcount.core import Head
from headcount.testing.programs import TELLING, Family, Planted, Planting, sigmoid, softplus
from headcount.testing.tokens import BITS, drawn

Example = TypeVar("Example")


class Alone(Planting, ABC, Generic[Example]):
    """Heads each of which says a bit of the label alone, some of them what another one tells."""

    @abstractmethod
    def read(self, planted: Planted, example: Example) -> Float[np.ndarray, " label"]:
        """What a head reads, for every label of an example."""

    def classes(self, examples: Sequence[Example], seed: int) -> list[int]:
        """The class of every example of one label, whose bits agree with what heads read."""
        rng, found = np.random.default_rng((2, seed)), np.zeros(len(examples), int)
        for number, label in enumerate(self.labels):
            (writer,) = self.writers(label)
            read_N = np.concatenate([self.read(writer, example) for example in examples])
            is_one_N = rng.random(len(read_N)) < sigmoid(writer.evidence * read_N)
            found += is_one_N.astype(int) << number
        return found.tolist()

    def effects(self, examples: Sequence[Example], sets: Sequence[Iterable[Head]]) -> list[float]:
        """By how much the mean loss of a label rises in nats without each of some sets of heads.

        The loss is expected over labels. What nobody tells is 0.
        """
        risen = dict[Head, float]()
        for each in (each for each in self.planted if each.label is not None):
            read = [self.read(each, example) for example in examples]
            odds_L = each.evidence * np.concatenate(read)
            likely_L = sigmoid(odds_L)
            dense_L = likely_L * softplus(-odds_L) + (1 - likely_L) * softplus(odds_L)
            risen[each.head] = float((np.log(2) - dense_L).mean())
        found = list[float]()
        for without in ({*each} for each in sets):
            untold = any(self.of(head).kind in TELLING for head in without)
            missing = (h for h in risen if h in without or (untold and self.of(h).reads_told))
            found.append(sum((risen[head] for head in missing), 0.0))
        return found


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
