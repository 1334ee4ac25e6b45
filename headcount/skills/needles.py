"""Needles: facts hidden in long texts, each with the words that ask for it.

A run is `start text needle text cue`. The needle says something that stands nowhere else, such as
"The pass key of Harlow is 48213.", and the cue begins to say it again: "The pass key of Harlow is".
The model has found the needle if it continues with the answer. A needle stands between two lines of
the text, at the place that is nearest to its depth.

Hay is the running text in which facts are hidden. Every part is encoded as one of a running text,
behind a line break, so that a tokenizer that puts a blank in front of a text (SentencePiece) puts
none into it. Prompts are raw text, or a user's message in the tokenizer's chat template, behind
which the model's reply begins with the cue.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from headcount.core import InputError, ModelError, amount, paced
from headcount.corpora import Noted, message_frame, parts, template_values
from headcount.models import Loaded
from headcount.skills.options import Kind, SkillOptions

ROOM = 60
"""Number of tokens kept behind a text, for a cue and its answer or for a sentence to choose."""


@final
@dataclass(frozen=True)
class Fact:
    """A kind of facts."""

    begins: str
    """How such a fact begins, with a place for a name; the cue that asks for it is the same."""
    answer: Callable[[np.random.Generator], str]
    """Draws what it says."""
    ends: str
    """How it ends."""


@final
@dataclass(frozen=True)
class Hidden:
    """One fact, as token ids."""

    cue: tuple[int, ...]
    """How it begins."""
    answer: tuple[int, ...]
    """What it says."""
    end: tuple[int, ...]
    """How it ends."""
    asks: tuple[int, ...]
    """What stands between the text and the answer if the fact is asked for; raw, it is the cue."""

    @property
    def ids(self) -> tuple[int, ...]:
        """All of it."""
        return (*self.cue, *self.answer, *self.end)


@final
class Hay:
    """Running text in which facts are hidden.

    Args:
        loaded: a causal language model with its tokenizer.
        texts: consecutive sentences or paragraphs.
        chat: whether the text is a user's message in the tokenizer's chat template.
        template: values for the template, NAME=VALUE each.

    Raises:
        ModelError: if the tokenizer has no such template.
    """

    def __init__(
        self,
        loaded: Loaded,
        texts: Sequence[str],
        chat: bool = False,
        template: Sequence[str] = (),
    ) -> None:
        encoder = loaded.encoder()
        self._tokenizer, self._name = encoder.tokenizer, loaded.name
        self.start, self._behind = encoder.start_ids, ""
        """Token ids in front of a text; often none."""
        if chat:
            before, self._behind = message_frame(
                self._tokenizer, loaded.name, template_values(template)
            )
            [ids] = parts(self._tokenizer, before)
            self.start = tuple(ids)
        stripped = [text.strip() for text in texts]
        bare = [encoder.bare(text).strip() for text in stripped]
        self.noted = Noted(sum(map(str.__ne__, stripped, bare)))
        """Number of texts that begin or end with a token that the tokenizer puts there."""
        self.lines = [self._encode(f" {text}") for text in bare if text]
        """Token ids of every text."""
        for number, line in enumerate(self.lines, start=1):
            encoder.check_media(line, f"text {number}")
        self.size = sum(map(len, self.lines))
        """Number of tokens of all texts."""
        limit, room = loaded.max_length, ROOM + len(self._encode(self._behind))
        self._most = None if limit is None else limit - room
        self.longest = min(self.size, self.size if self._most is None else self._most)
        """Largest number of tokens of a text that is there, and that the model takes with a
        question."""

    def _encode(self, text: str) -> list[int]:
        return parts(self._tokenizer, "\n", text)[1]

    def check(self, longest: int, name: str) -> None:
        """Check that a text of a length can be drawn, and that the model takes it with a question.

        Args:
            longest: the number of its tokens.
            name: name of the option that sets it.

        Raises:
            InputError: if the texts are shorter.
            ModelError: if the model takes fewer tokens.
        """
        if (most := self._most) is not None and longest > most:
            raise ModelError(
                f"Expected {name} of at most {amount(most, 'token')}, as many as {self._name} "
                f"takes with a question and its answer, got {longest}. Give smaller --{name}."
            )
        if self.size < longest:
            raise InputError(
                f"Expected texts of at least {longest} tokens to hide needles in, got "
                f"{amount(len(self.lines), 'text')} of {amount(self.size, 'token')}. Give longer "
                f"ones, or smaller --{name}."
            )

    def hide(self, fact: Fact, name: str, random: np.random.Generator) -> Hidden:
        """A fact about somebody, and what asks for it."""
        begins = fact.begins.format(name)
        said = (f" {begins}", f" {fact.answer(random)}", fact.ends)
        cue, answer, end = map(tuple, parts(self._tokenizer, "\n", *said)[1:])
        asks = tuple(self._encode(self._behind + begins)) if self._behind else cue
        return Hidden(cue, answer, end, asks)

    def drawn(self, random: np.random.Generator, room: int) -> list[list[int]]:
        """Lines from a random one on, the last of them cut to fit."""
        found, number = list[list[int]](), int(random.integers(len(self.lines)))
        while room > 0:
            line = self.lines[number % len(self.lines)][:room]
            found.append(line)
            room, number = room - len(line), number + 1
        return found

    def around(
        self,
        needle: Sequence[int],
        asks: Sequence[int],
        length: int,
        depth: float,
        random: np.random.Generator,
        names: tuple[str, str],
    ) -> tuple[tuple[int, ...], float, int]:
        """A prompt of a length: a needle between two lines, and what asks for it at the end.

        Args:
            needle: token ids of the needle.
            asks: token ids between the text and the answer.
            length: number of tokens of the prompt.
            depth: wanted place of the needle, as a share of the text.
            random: draws the text.
            names: name of the option that sets the length, and kind of the needle, for errors.

        Returns:
            The prompt, the depth that was reached, and the place where the needle begins.

        Raises:
            InputError: if the needle and its cue leave no room for text.
        """
        room = length - len(self.start) - len(needle) - len(asks)
        if room < 1:
            option, kind = names
            raise InputError(
                f"Expected {option} above {amount(length - room, 'token')}, which a needle "
                f"of the kind {kind} and its cue take, got {length}. Give larger --{option}."
            )
        hay = self.drawn(random, room)
        cuts = np.cumsum([0, *map(len, hay)])
        before = int(cuts[np.abs(cuts - depth * room).argmin()])
        flat = [each for line in hay for each in line]
        ids = (*self.start, *flat[:before], *needle, *flat[before:], *asks)
        return ids, before / room, len(self.start) + before

    def inquire(
        self, needle: str, question: str, begins: str, answer: str
    ) -> tuple[tuple[int, ...], ...]:
        """Token ids of a needle, of a question with how the reply to it begins, and of the answer.

        In a chat the message ends with the question.
        """
        between = self._behind or " Answer: "
        asks = f" Question: {question}{between}{begins}"
        [ids] = parts(self._tokenizer, "\n", f" {needle}")[1:]
        return tuple(ids), *map(tuple, parts(self._tokenizer, "\n", asks, f" {answer}")[1:])

    def windows(self, length: int, most: int) -> Int64[Tensor, "window token"]:
        """Stretches of the texts, of a length each with what stands in front of them."""
        flat = [each for line in self.lines for each in line]
        room = length - len(self.start)
        starts = range(0, len(flat) - room + 1, room)[:most]
        return torch.tensor([[*self.start, *flat[first : first + room]] for first in starts])


def pick(words: Sequence[str]) -> Callable[[np.random.Generator], str]:
    """A function that draws a word."""
    return lambda random: words[int(random.integers(len(words)))]


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
        self.hay, self._lengths = Hay(loaded, texts, options.chat, options.template), lengths
        """What the needles are hidden in."""
        self.hay.check(max(options.lengths), lengths)
        self.all = tuple(self._drawn(options))
        """The needles, those of one length together."""

    def _drawn(self, options: SkillOptions) -> Iterator[Needle]:
        random = np.random.default_rng(options.seed)
        for length in options.lengths:
            for kind in options.kinds:
                for depth in options.depths:
                    drawn = (
                        self._needle(random, kind, length, depth) for _ in range(options.needles)
                    )
                    yield from paced(drawn, options.needles, "needles", held=True)

    def _needle(self, random: np.random.Generator, kind: Kind, length: int, depth: float) -> Needle:
        hidden = self.hay.hide(KINDS[kind], pick(NAMES)(random), random)
        ids, depth, place = self.hay.around(
            hidden.ids, hidden.asks, length, depth, random, (self._lengths, kind)
        )
        return Needle(kind, depth, ids, hidden.answer, place + len(hidden.cue))
