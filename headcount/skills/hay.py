"""Hay: running text in which facts are hidden, as token ids, and the facts that are hidden there.

Every part is encoded as one of a running text, behind a line break, so that a tokenizer that puts a
blank in front of a text (SentencePiece) puts none into it. Prompts are raw text, or a user's
message in the tokenizer's chat template, behind which the model's reply begins with the cue.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from headcount.core import InputError, ModelError, amount
from headcount.corpora import message_frame, parts
from headcount.models import Loaded

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

    Raises:
        ModelError: if the tokenizer has no such template.
    """

    def __init__(self, loaded: Loaded, texts: Sequence[str], chat: bool = False) -> None:
        encoder = loaded.encoder()
        self._tokenizer, self._name = encoder.tokenizer, loaded.name
        self.start, self._behind = encoder.start_ids, ""
        """Token ids in front of a text; often none."""
        if chat:
            before, self._behind = message_frame(self._tokenizer, loaded.name)
            [ids] = parts(self._tokenizer, before)
            self.start = tuple(ids)
        self.lines = [self._encode(f" {text.strip()}") for text in texts if text.strip()]
        """Token ids of every text."""
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

    def windows(self, length: int, most: int) -> Int64[Tensor, "window token"]:
        """Stretches of the texts, of a length each with what stands in front of them."""
        flat = [each for line in self.lines for each in line]
        room = length - len(self.start)
        starts = range(0, len(flat) - room + 1, room)[:most]
        return torch.tensor([[*self.start, *flat[first : first + room]] for first in starts])


def pick(words: Sequence[str]) -> Callable[[np.random.Generator], str]:
    """A function that draws a word."""
    return lambda random: words[int(random.integers(len(words)))]
