"""Needles: facts hidden in long texts, each with the words that ask for it.

A run is `start text needle text cue`. The needle says something that stands nowhere else, such as
"The pass key of Harlow is 48213.", and the cue begins to say it again: "The pass key of Harlow is".
The model has found the needle if it continues with the answer. A needle stands between two lines of
the text, at the place that is nearest to its depth.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from headcount.core import InputError, amount
from headcount.models import Loaded
from headcount.skills.hay import Fact, Hay, pick
from headcount.skills.options import Kind, SkillOptions

NAMES = "Harlow Whitman Castell Brandt Okafor Lindqvist Moreau Tanaka Velasco Petrov".split()
"""People that needles are about."""
_city = pick("Lisbon Oslo Nairobi Quito Prague Hanoi Dublin Cairo Lima Warsaw".split())
_colour = pick("green silver yellow purple orange crimson".split())
_thing = pick("umbrella guitar lantern bicycle teapot violin kite".split())

KINDS: dict[Kind, Fact] = {
    "pass key": Fact(
        "The pass key of {} is", lambda r: str(r.integers(10_000, 100_000)), ". Remember it."
    ),
    "city": Fact("Last spring {} moved to", _city, "."),
    "gift": Fact("For her birthday {} wanted a", lambda r: f"{_colour(r)} {_thing(r)}", "."),
    "meeting": Fact(
        "The meeting with {} takes place on",
        lambda r: f"the {r.integers(2, 29)}th in {_city(r)}",
        ".",
    ),
}
"""Kinds of needles."""


@final
@dataclass(frozen=True)
class Needle:
    """A text with a needle in it."""

    kind: str
    """One of `KINDS`."""
    depth: float
    """Place of the needle, as a share of the text: where it stands, between two of its lines."""
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
        lengths: name of the option that sets the lengths, for errors.

    Raises:
        InputError: if the texts are shorter than the longest prompt.
        ModelError: if the model takes fewer tokens, or there is no chat template.
    """

    def __init__(
        self,
        loaded: Loaded,
        texts: Sequence[str],
        options: SkillOptions,
        lengths: str = "lengths",
    ) -> None:
        self.hay, self._lengths = Hay(loaded, texts, options.chat), lengths
        """What the needles are hidden in."""
        self.hay.check(max(options.lengths), lengths)
        self.all = tuple(self._drawn(options))
        """The needles, those of one length together."""

    def _drawn(self, options: SkillOptions) -> Iterator[Needle]:
        random = np.random.default_rng(options.seed)
        for length in options.lengths:
            for kind in options.kinds:
                for depth in options.depths:
                    for _ in range(options.needles):
                        yield self._needle(random, kind, length, depth)

    def _needle(self, random: np.random.Generator, kind: Kind, length: int, depth: float) -> Needle:
        name, start = pick(NAMES)(random), self.hay.start
        hidden = self.hay.hide(KINDS[kind], name, random)
        room = length - len(start) - len(hidden.ids) - len(hidden.asks)
        if room < 1:
            raise InputError(
                f"Expected {self._lengths} above {amount(length - room, 'token')}, which a needle "
                f"of the kind {kind} and its cue take, got {length}. Give larger --{self._lengths}."
            )
        hay = self.hay.drawn(random, room)
        cuts = np.cumsum([0, *map(len, hay)])
        before = int(cuts[np.abs(cuts - depth * room).argmin()])
        flat = [each for line in hay for each in line]
        ids = (*start, *flat[:before], *hidden.ids, *flat[before:], *hidden.asks)
        place = len(start) + before + len(hidden.cue)
        return Needle(kind, before / room, ids, hidden.answer, place)


def prompts(needles: Sequence[Needle]) -> Int64[Tensor, "needle token"]:
    """The prompts of needles of one length."""
    return torch.tensor([each.ids for each in needles])
