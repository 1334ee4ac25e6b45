"""Needles: facts hidden in long texts, each with the words that ask for it.

A run is `start text needle text cue`. The needle says something that stands nowhere else, such as
"The pass key of Harlow is 48213.", and the cue begins to say it again: "The pass key of Harlow is".
The model has found the needle if it goes on with the answer. All of it is raw text: a chat template
lowers what small models find.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from headcount.core import InputError, ModelError, amount
from headcount.models import Loaded
from headcount.skills.options import Kind, SkillOptions

NAMES = "Harlow Whitman Castell Brandt Okafor Lindqvist Moreau Tanaka Velasco Petrov".split()
"""People that needles are about."""
CITIES = "Lisbon Oslo Nairobi Quito Prague Hanoi Dublin Cairo Lima Warsaw".split()
COLOURS = "green silver yellow purple orange crimson".split()
THINGS = "umbrella guitar lantern bicycle teapot violin kite".split()
_CUE_ROOM = 40
"""Number of tokens kept for a needle and its cue."""


def _pick(random: np.random.Generator, words: Sequence[str]) -> str:
    return words[int(random.integers(len(words)))]


def _digits(random: np.random.Generator) -> str:
    return str(random.integers(10_000, 100_000))


KINDS: dict[Kind, tuple[str, Callable[[np.random.Generator], str], str]] = {
    "pass key": ("The pass key of {} is", _digits, ". Remember it."),
    "city": ("Last spring {} moved to", lambda random: _pick(random, CITIES), "."),
    "gift": (
        "For her birthday {} wanted a",
        lambda random: f"{_pick(random, COLOURS)} {_pick(random, THINGS)}",
        ".",
    ),
    "meeting": (
        "The meeting with {} takes place on",
        lambda random: f"the {random.integers(2, 29)}th in {_pick(random, CITIES)}",
        ".",
    ),
}
"""Kinds of needles: how they begin, which is also the cue; the answer; and how they end."""


@final
@dataclass(frozen=True)
class Needle:
    """A text with a needle in it."""

    kind: str
    """One of `KINDS`."""
    depth: float
    """Place of the needle, as a share of the text."""
    ids: tuple[int, ...]
    """Token ids of the whole prompt, whose next token begins the answer."""
    answer: tuple[int, ...]
    """Token ids of the answer."""
    place: int
    """Where the answer stands in the prompt."""

    @property
    def length(self) -> int:
        """Number of tokens of the prompt."""
        return len(self.ids)


@final
class Needles:
    """Needles of every kind, at every length and depth.

    Args:
        loaded: a causal language model with its tokenizer.
        texts: what the needles are hidden in.
        options: kinds, lengths and depths.

    Raises:
        InputError: if the texts are shorter than the longest prompt.
        ModelError: if the model takes fewer tokens.
    """

    def __init__(self, loaded: Loaded, texts: Sequence[str], options: SkillOptions) -> None:
        self._encoder = loaded.encoder()
        longest = max(options.lengths)
        if loaded.max_length is not None and longest + _CUE_ROOM > loaded.max_length:
            raise ModelError(
                f"Expected lengths of at most {loaded.max_length - _CUE_ROOM} tokens, as many as "
                f"{loaded.name} takes with an answer, got {longest}. Give smaller --lengths."
            )
        self._texts = [self._encode(f" {text.strip()}") for text in texts if text.strip()]
        there = sum(map(len, self._texts))
        if there < longest:
            raise InputError(
                f"Expected texts of at least {longest} tokens to hide needles in, got "
                f"{amount(len(self._texts), 'text')} of {there} tokens. Give longer ones."
            )
        self.start = self._encoder.start_ids
        """What the tokenizer puts in front of a text; often nothing."""
        self.all = tuple(self._drawn(options))
        """The needles, those of one length together."""

    def windows(self, length: int, most: int) -> Int64[Tensor, "window token"]:
        """Texts without needles, of a length each, behind what the tokenizer puts in front."""
        flat = [each for text in self._texts for each in text]
        room = length - len(self.start)
        starts = range(0, len(flat) - room + 1, room)[:most]
        return torch.tensor([[*self.start, *flat[first : first + room]] for first in starts])

    def _encode(self, text: str) -> list[int]:
        return self._encoder.tokenizer(text, add_special_tokens=False)["input_ids"]

    def _drawn(self, options: SkillOptions) -> Iterator[Needle]:
        random = np.random.default_rng(options.seed)
        for length in options.lengths:
            for kind in options.kinds:
                for depth in options.depths:
                    for _ in range(options.needles):
                        yield self._needle(random, kind, length, depth)

    def _needle(self, random: np.random.Generator, kind: Kind, length: int, depth: float) -> Needle:
        begins, answered, ends = KINDS[kind]
        cue = self._encode(" " + begins.format(_pick(random, NAMES)))
        answer = self._encode(" " + answered(random))
        end = self._encode(ends)
        room = length - len(self.start) - 2 * len(cue) - len(answer) - len(end)
        if room < 1:
            least = length - room
            raise InputError(
                f"Expected lengths above {least} tokens, which a needle of the kind {kind} and its "
                f"cue take, got {length}. Give larger --lengths."
            )
        hay = self._hay(random, room)
        cuts = np.cumsum([0, *map(len, hay)])  # between sentences only
        before = int(cuts[np.abs(cuts - depth * room).argmin()])
        flat = [each for text in hay for each in text]
        ids = [*self.start, *flat[:before], *cue, *answer, *end, *flat[before:], *cue]
        place = len(self.start) + before + len(cue)
        return Needle(kind, depth, tuple(ids), tuple(answer), place)

    def _hay(self, random: np.random.Generator, room: int) -> list[list[int]]:
        """Texts from a random one on, the last of them cut to fit."""
        found, number = list[list[int]](), int(random.integers(len(self._texts)))
        while room > 0:
            text = self._texts[number % len(self._texts)][:room]
            found.append(text)
            room, number = room - len(text), number + 1
        return found


def prompts(needles: Sequence[Needle]) -> Int64[Tensor, "needle token"]:
    """The prompts of needles of one length."""
    return torch.tensor([each.ids for each in needles])
