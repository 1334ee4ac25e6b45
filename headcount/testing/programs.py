r"""Programs of attention heads whose every effect is known, and texts that follow them.

A text is a sequence of tokens, and a token is a row of bits. A planted head looks at one token, by
its kind, and reads a bit v of it, 1 or -1. What it reads is evidence for a bit of the label, which
is the next token in a causal model and the class of the word in an encoder:

$$\log \frac{p(y_l = 1)}{p(y_l = -1)} = \sum_{h \text{ writes } l} e_h v_h$$

So the loss with any set of heads removed follows from the program alone, without a model.

- *needed*: the label agrees with the bit with probability sigmoid(e), which the model knows.
- *backup*: two heads or more write the same. The label agrees with a probability for which the loss
  is the same without any one of them.
- *noise*: the label agrees so rarely that the loss is the same, in the mean, with and without the
  head, although most predictions change.
- *undo*: two heads write the opposite, and the label is independent of both.
- *silent*: the head looks where its kind says, and nothing reads what it writes.
- *idle*: the head looks at nothing that has a name, and nothing reads what it writes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, final, get_args

import numpy as np
from jaxtyping import Float, Int

from headcount.core import Head, amount
from headcount.testing.tokens import BITS, GATE, PUNCTUATION, drawn, rarity

TextKind = Literal["offset", "first", "punctuation", "rare", "mean", "copy", "tell", "idle"]
"""What a head looks at: the key at an offset; the first token; the last punctuation mark; the
rarest token, of several the first; all tokens alike; the token after the earlier one that is most
like its own, by what a head that tells has written there; the previous token, for one that copies;
nothing with a name."""
Kind = (
    TextKind | Literal["separator", "segment", "place", "beside", "spot", "row", "column", "near"]
)
"""Besides: the last separator; all tokens of the own segment alike; the patch at a place beside,
and the same for one that tells what it is; the patch in one place of every image; all patches of
the own row, or column, alike; the frames around the own one."""
TELLING = ("tell", "beside")
"""What heads look at that tell others."""
Purpose = Literal["needed", "backup", "noise", "undo", "silent", "idle"]
Family = Literal["gpt2", "llama", "grouped", "encoder", "translator", "pairs", "patches", "frames"]
"""GPT-2; Llama, without and with grouped queries; RoBERTa with normalisation before attention;
Blenderbot, an encoder-decoder; that RoBERTa with two segments; a Vision Transformer; a Whisper."""

FARTHEST = 31
"""Largest offset, in tokens."""
_OWN: dict[str, Any] = {"kind": "offset", "offset": 0}


@final
@dataclass(frozen=True)
class Planted:
    """One head of a program."""

    head: Head
    kind: Kind
    purpose: Purpose
    bit: int = 0
    """Bit of the token that is read."""
    label: int | None = None
    """Bit of the label that is written; None if nothing reads what is written."""
    evidence: float = 0.0
    """Log-odds that are written; negative for the opposite of the bit."""
    offset: int = 0
    """Key less query of the kind `offset`."""
    place: tuple[int, int] = (0, 0)
    """Row and column, in an image, of the patch: less those of the query, but for a `spot`."""
    reads_told: bool = False
    """Whether the bit is read that a head tells there, which is that of the token before."""
    is_gated: bool = False
    """Whether only tokens with the bit `GATE` look there; the others look at the last token."""


@dataclass(frozen=True)
class Planting:
    """Heads of a model and what they do; all others are idle."""

    kinds: ClassVar[tuple[Kind, ...]]
    """What its heads can look at."""

    planted: tuple[Planted, ...]
    """Every head that is not idle by default."""
    layers: int = 4
    heads: int = 4

    def __post_init__(self) -> None:
        """Check what no weights can be.

        Raises:
            ValueError: For a head that is not in the model or is planted twice, an unknown kind or
                purpose, a bit that no token has, a label without evidence or evidence
                without a label, and an offset that is too far or of another kind.
        """
        found = set[Head]()
        for each in self.planted:
            head, bits = each.head, (each.bit, each.label or 0)
            if not (head.layer < self.layers and head.index < self.heads):
                size = f"{amount(self.layers, 'layer')} of {amount(self.heads, 'head')}"
                raise ValueError(f"Expected a head of {size}, got {head}. Name another one.")
            if head in found:
                raise ValueError(f"Expected one thing that {head} does, got two. Name it once.")
            found.add(head)
            for word, words in ((each.kind, self.kinds), (each.purpose, get_args(Purpose))):
                if word not in words:
                    raise ValueError(f"Expected one of {', '.join(words)}, got {word} of {head}.")
            if not all(0 <= bit < BITS for bit in bits):
                raise ValueError(f"Expected bits from 0 to {BITS - 1}, got {bits}. Choose another.")
            if (each.label is None) != (each.evidence == 0):
                raise ValueError(
                    f"Expected a label and evidence for it, or neither, got label {each.label} "
                    f"and evidence {each.evidence:g} of {head}. Give both."
                )
            if abs(each.offset) > FARTHEST:
                raise ValueError(
                    f"Expected an offset of at most {FARTHEST}, got {each.offset} of {head}. "
                    "A head can't distinguish places that are farther away."
                )
            if each.offset and each.kind != "offset":
                raise ValueError(
                    f"Expected an offset of the kind offset only, got {each.offset} of {head}, "
                    f"which is of the kind {each.kind}. Leave it out."
                )

    @cached_property
    def labels(self) -> tuple[int, ...]:
        """Bits of the label that some head writes."""
        return tuple(sorted({each.label for each in self.planted if each.label is not None}))

    def writers(self, label: int) -> tuple[Planted, ...]:
        """The heads that write a bit of the label."""
        return tuple(each for each in self.planted if each.label == label)

    def of(self, head: Head) -> Planted:
        """What a head does; a head that is not planted is idle."""
        found = [each for each in self.planted if each.head == head]
        return found[0] if found else Planted(head, "idle", "idle")


@final
@dataclass(frozen=True)
class Program(Planting):
    """Heads of a language model or an encoder, what they look at, and what that is worth."""

    kinds = get_args(TextKind)
    site: Literal["decoder.self", "encoder.self"] = "decoder.self"

    def __post_init__(self) -> None:
        """Check that weights can do what is asked of the heads.

        Raises:
            ValueError: As in `Planting`; for a head of another site, one of a language model that
                looks ahead, a copy that nobody tells or in an encoder, a gate that its kind has
                not, and writers of a label that do not fit each other.
        """
        super().__post_init__()
        telling = [each.head.layer for each in self.planted if each.kind == "tell"]
        for each in self.planted:
            if each.head.site != self.site:
                raise ValueError(f"Expected heads of {self.site}, got {each.head}. Set site=.")
            if self.is_causal and each.offset > 0:
                raise ValueError(
                    f"Expected a head that looks back or at its own token, got the offset "
                    f"{each.offset} of {each.head}. Plant it in an encoder."
                )
            if each.kind == "copy" and not self.is_causal:
                raise ValueError(
                    f"Expected a copy in a language model, got {each.head}. In an encoder the next "
                    "token is always the best match: plant an offset of 1."
                )
            if each.reads_told:
                raise ValueError(
                    f"Expected a head that reads a bit of its key, got {each.head}, which reads "
                    "what is told there. Plant one of the kind copy."
                )
            if each.is_gated and each.kind != "offset":
                raise ValueError(
                    f"Expected a gated head of the kind offset, got {each.kind}. Other kinds look "
                    "at their key from every token."
                )
            if each.kind == "copy" and not any(layer < each.head.layer for layer in telling):
                raise ValueError(
                    f"Expected a head that tells in a layer before {each.head}, got none. Plant "
                    "one of the kind tell."
                )
        for label in self.labels:
            _check_writers(label, self.writers(label))

    @property
    def families(self) -> tuple[Family, ...]:
        """The architectures that run it."""
        return ("gpt2", "llama", "grouped") if self.is_causal else ("encoder",)

    @property
    def is_causal(self) -> bool:
        """Whether tokens see only those before them, as in a language model."""
        return self.site == "decoder.self"

    @property
    def needed(self) -> frozenset[Head]:
        """The heads without any one of which the loss rises."""
        alone = (each for each in self.planted if each.purpose in ("needed", "undo"))
        return frozenset(each.head for each in alone)

    # ------------------------------------------------------------ what heads look at

    def looked_at(
        self,
        planted: Planted,
        bits_NTK: Int[np.ndarray, "text token bit"],
        at_Q: Int[np.ndarray, " query"],
    ) -> Int[np.ndarray, "text query"]:
        """The key that a head looks at from some queries, in each of some texts of one length.

        Raises:
            ValueError: for a kind that looks at several keys.
        """
        num_texts, length, _ = bits_NTK.shape
        key_T = np.arange(length)
        last_Q = at_Q if self.is_causal else np.full_like(at_Q, length - 1)

        def best(score: np.ndarray) -> Int[np.ndarray, "text query"]:
            return np.where(key_T <= last_Q[:, None], score, -np.inf).argmax(-1)

        match planted.kind:
            case "offset" | "tell":
                offset = -1 if planted.kind == "tell" else planted.offset
                found = np.minimum(np.maximum(at_Q + offset, 0), last_Q)
            case "first":
                found = np.zeros_like(at_Q)
            case "punctuation":
                found = best((bits_NTK[..., PUNCTUATION] * length + key_T)[:, None])
            case "rare":
                found = best(rarity(bits_NTK)[:, None])
            case "copy":
                told_NTK = bits_NTK[:, np.maximum(key_T - 1, 0)]
                found = best(bits_NTK[:, at_Q] @ told_NTK.swapaxes(1, 2) * length + key_T)
            case other:
                raise ValueError(f"Expected a kind that looks at one key, got {other}.")
        if planted.is_gated:
            found = np.where(bits_NTK[:, at_Q, GATE] > 0, found, last_Q)
        return np.broadcast_to(found, (num_texts, len(at_Q)))

    def read(
        self,
        planted: Planted,
        bits_NTK: Int[np.ndarray, "text token bit"],
        at_Q: Int[np.ndarray, " query"],
    ) -> Float[np.ndarray, "text query"]:
        """What a head reads at some queries: the bit of the key that it looks at, or the mean."""
        bit_NT = bits_NTK[..., planted.bit]
        if planted.kind == "mean":
            last_Q = at_Q if self.is_causal else np.full_like(at_Q, bits_NTK.shape[1] - 1)
            return bit_NT.cumsum(1)[:, last_Q] / (1 + last_Q)
        keys_NQ = self.looked_at(planted, bits_NTK, at_Q)
        return np.take_along_axis(bit_NT, keys_NQ, axis=1).astype(float)

    # ------------------------------------------------------------ labels and losses

    def likely(self, label: int, read: Float[np.ndarray, "*query"]) -> Float[np.ndarray, "*query"]:
        """Probability that a bit of the label is 1, by what the first of its writers reads."""
        first = self.writers(label)[0]
        evidence = first.evidence
        match first.purpose:
            case "needed":
                return sigmoid(evidence * read)
            case "undo":
                return np.full_like(read, 0.5)
            case "noise":
                agrees = (softplus(evidence) - np.log(2)) / evidence
            case "backup":
                every = len(self.writers(label)) * evidence
                agrees = 1 - (softplus(evidence - every) - softplus(-every)) / evidence
            case other:
                raise ValueError(f"Expected a purpose that writes, got {other}.")
        return 0.5 + (agrees - 0.5) * read

    def reads(
        self, planted: Planted, texts: Sequence[Int[np.ndarray, "token bit"]]
    ) -> list[Float[np.ndarray, " token"]]:
        """What a head reads at every token of some texts."""
        found: dict[int, np.ndarray] = {}
        for length in {len(each) for each in texts}:
            group = [number for number, each in enumerate(texts) if len(each) == length]
            bits_NTK = np.stack([texts[number] for number in group])
            found |= dict(zip(group, self.read(planted, bits_NTK, np.arange(length)), strict=True))
        return [found[number] for number in range(len(texts))]

    def effects(
        self, texts: Sequence[Int[np.ndarray, "token bit"]], sets: Sequence[Iterable[Head]]
    ) -> list[float]:
        """By how much the mean loss of a token rises in nats without each of some sets of heads.

        The loss is expected over labels. A head that copies reads its own token if nobody tells.

        Args:
            texts: Bits of the tokens of each text.
            sets: Heads whose outputs are zero together.
        """
        last = -1 if self.is_causal else None  # whose label is not in the text
        writers = [each for each in self.planted if each.label is not None]
        told, untold = (
            {
                each.head: np.concatenate([one[:last] for one in self.reads(read, texts)])
                for each in writers
                for read in [each if is_told or each.kind != "copy" else replace(each, **_OWN)]
            }
            for is_told in (True, False)
        )
        telling = {each.head for each in self.planted if each.kind == "tell"}
        dense, *others = (
            self._loss(told, untold if telling & without else told, without)
            for without in ({*each} for each in ((), *sets))
        )
        return [each - dense for each in others]

    def _loss(
        self,
        true: Mapping[Head, Float[np.ndarray, " token"]],
        reads: Mapping[Head, Float[np.ndarray, " token"]],
        without: set[Head],
    ) -> float:
        """Mean loss of a token by what heads read, where labels are by what they truly read."""
        total = 0.0
        for label in self.labels:
            writers = self.writers(label)
            likely_T = self.likely(label, true[writers[0].head])
            odds_T = np.zeros_like(likely_T)
            for each in writers:
                odds_T += each.evidence * reads[each.head] * (each.head not in without)
            losses_T = likely_T * softplus(-odds_T) + (1 - likely_T) * softplus(odds_T)
            total += float(losses_T.mean())
        return total

    # ------------------------------------------------------------ texts

    def texts(
        self, number: int, seed: int, shortest: int = 12, longest: int = 24
    ) -> list[Int[np.ndarray, "token bit"]]:
        """Bits of the tokens of some texts; in a causal model, each token is the label before."""
        rng = np.random.default_rng((1, seed))
        bits_NTK = drawn(rng, (number, longest))
        if self.is_causal:
            for at in range(longest - 1):
                labels_N1L = self.drawn_labels(bits_NTK, np.array([at]), rng)
                bits_NTK[:, at + 1, list(self.labels)] = labels_N1L[:, 0]
        lengths = rng.integers(shortest, longest + 1, number)
        return [bits_TK[:length] for bits_TK, length in zip(bits_NTK, lengths, strict=True)]

    def drawn_labels(
        self,
        bits_NTK: Int[np.ndarray, "text token bit"],
        at_Q: Int[np.ndarray, " query"],
        rng: np.random.Generator,
    ) -> Int[np.ndarray, "text query label"]:
        """The bits of some tokens' labels that heads write, drawn for texts of one length."""
        likely_LNQ = np.zeros((len(self.labels), len(bits_NTK), len(at_Q)))
        for number, label in enumerate(self.labels):
            read_NQ = self.read(self.writers(label)[0], bits_NTK, at_Q)
            likely_LNQ[number] = self.likely(label, read_NQ)
        drawn_QLN = rng.random((len(at_Q), len(self.labels), len(bits_NTK)))
        return np.where(drawn_QLN.transpose(2, 0, 1) < likely_LNQ.transpose(1, 2, 0), 1, -1)

    def classes(self, bits_TK: Int[np.ndarray, "token bit"], seed: int) -> list[int]:
        """The class of every word of a text, whose bits are those that heads write."""
        rng = np.random.default_rng((2, seed))
        drawn_TL = self.drawn_labels(bits_TK[None], np.arange(len(bits_TK)), rng)[0]
        return ((drawn_TL > 0) @ (1 << np.arange(drawn_TL.shape[1]))).tolist()


def _check_writers(label: int, writers: Sequence[Planted]) -> None:
    """Check that the heads that write a bit of the label fit each other."""
    evidence = {each.evidence for each in writers}
    fits = {
        frozenset({"needed"}): len(writers) == 1,
        frozenset({"noise"}): len(writers) == 1,
        frozenset({"backup"}): len(writers) > 1 and len(evidence) == 1,
        frozenset({"undo"}): len(writers) == 2 and sum(evidence) == 0,
    }
    if not fits.get(frozenset(each.purpose for each in writers), False):
        got = ", ".join(f"{each.purpose} with evidence {each.evidence:g}" for each in writers)
        raise ValueError(
            f"Expected one needed or noisy head for label {label}, several that back up each other "
            f"with the same evidence, or two that undo each other, got {got}."
        )


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)), of a number or of an array."""
    return 1 / (1 + np.exp(-x))


def softplus(x: Any) -> Any:
    """log(1 + exp(x)), of a number or of an array."""
    return np.logaddexp(0, x)
