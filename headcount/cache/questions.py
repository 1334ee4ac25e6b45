"""Questions that judge a plan: texts with several needles each, and next sentences to choose.

A text of a given length hides needles between its sentences, with all answers behind the first
`sink` tokens and before the last `recent` ones. At its end each is asked for: the words that begin
it are its cue, and it is found if every token of its answer is the likeliest one. At other places
of the text the next sentence is asked for, among three from elsewhere: the likeliest of the four
per token is the model's choice. Other needles than these, in other texts, score retrieval.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from headcount.cache.options import CacheOptions
from headcount.core import InputError, ModelError, amount
from headcount.models import Loaded
from headcount.results import NEXT

NAMES = "Abbott Bianchi Cooper Dupont Eriksen Fischer Garcia Hansen Ivanov Jansen".split()
"""People that needles are about."""
WORDS = "anchor basket candle drum feather glove hammer kettle ladder mirror needle pillow".split()
PETS = "Biscuit Pepper Ginger Shadow Coco Rusty Daisy Felix Luna Oscar".split()
STREETS = "Maple Church Garden River Station Mill Bridge Castle Forest Market".split()
CUE_ROOM = 60
"""Number of tokens kept for a cue and its answer, or for a sentence to choose."""
SHORTEST, LONGEST = 6, 24
"""Least and largest number of tokens of a sentence to choose; a longer one is cut."""
CHOICES = 4
"""Number of sentences to choose from."""


def _pick(random: np.random.Generator, words: Sequence[str]) -> str:
    return words[int(random.integers(len(words)))]


KINDS: dict[str, tuple[str, Callable[[np.random.Generator], str], str]] = {
    "locker": ("The locker of {} has the number", lambda r: str(r.integers(100, 1000)), "."),
    "password": ("The password of {} is the word", lambda r: _pick(r, WORDS), "."),
    "dog": ("The dog of {} is called", lambda r: _pick(r, PETS), "."),
    "train": (
        "The train of {} leaves at",
        lambda r: f"{r.integers(1, 13)}:{r.integers(10, 60)}",
        " tomorrow.",
    ),
    "street": (
        "The new office of {} is at",
        lambda r: f"{r.integers(11, 100)} {_pick(r, STREETS)} Street",
        ", third floor.",
    ),
}
"""Kinds of needles: how they begin, which is also the cue; the answer; and how they end."""


@final
@dataclass(frozen=True)
class Question:
    """What may follow on a text."""

    kind: str
    """One of `KINDS`, or `NEXT`."""
    place: int
    """Number of tokens of the text before it."""
    cue: tuple[int, ...]
    """Token ids between the text and every answer."""
    answers: tuple[tuple[int, ...], ...]
    """Token ids of the right answer and, behind it, of wrong ones; of a needle the right one."""


@final
@dataclass(frozen=True)
class AskedText:
    """A text, and what is asked about it."""

    ids: tuple[int, ...]
    """Token ids of the text."""
    questions: tuple[Question, ...]
    """The questions, in the order of their places."""


@final
@dataclass(frozen=True)
class _Needle:
    kind: str
    cue: list[int]
    answer: list[int]
    ids: list[int]


@final
class Questions:
    """Texts with questions, of every length.

    Args:
        loaded: a causal language model with its tokenizer.
        texts: what needles are hidden in; consecutive sentences or paragraphs.
        options: how many of what length.

    Raises:
        InputError: if the texts are too short or too few, if their lines leave no place for
            needles, or if there are more needles than different ones.
        ModelError: if the model takes fewer tokens.
    """

    def __init__(self, loaded: Loaded, texts: Sequence[str], options: CacheOptions) -> None:
        self._encoder, self._options = loaded.encoder(), options
        longest, most = max(options.lengths), len(KINDS) * len(NAMES)
        if loaded.max_length is not None and longest + CUE_ROOM > loaded.max_length:
            raise ModelError(
                f"Expected lengths of at most {amount(loaded.max_length - CUE_ROOM, 'token')}, as "
                f"many as {loaded.name} takes with a question, got {longest}. Give smaller "
                "--lengths."
            )
        if options.needles > most:
            raise InputError(
                f"Expected at most {amount(most, 'needle')} in a text, since no two are alike, got "
                f"{options.needles}. Use a larger --per-length instead."
            )
        self._texts = [self._encode(f" {text.strip()}") for text in texts if text.strip()]
        self._there = there = sum(map(len, self._texts))
        if there < longest:
            raise InputError(
                f"Expected texts of at least {longest} tokens to judge a plan, got "
                f"{amount(len(self._texts), 'text')} of {there} tokens. Give longer ones, or "
                "smaller --lengths."
            )
        self._sentences = [ids[:LONGEST] for ids in self._texts if len(ids) >= SHORTEST]
        if (different := len(set(map(tuple, self._sentences)))) < CHOICES:
            raise InputError(
                f"Expected at least {CHOICES} different texts of {SHORTEST} tokens or more, to "
                f"choose the next sentence from, got {different}. Write each sentence or paragraph "
                "on a line."
            )
        random = np.random.default_rng(options.seed)
        self.all = tuple(
            self._text(random, length)
            for length in options.lengths
            for _ in range(options.per_length)
        )
        """The texts, those of one length together."""

    def warnings(self) -> Iterator[str]:
        """What makes intervals over these texts too narrow."""
        if (drawn := sum(len(text.ids) for text in self.all)) > self._there:
            texts = f"{amount(len(self.all), 'text')} of {amount(drawn, 'token')} in all"
            yield (
                f"{texts} are drawn from {self._there:,}, so that they share sentences and "
                "intervals over texts are too narrow. Give longer texts"
            )

    def _encode(self, text: str) -> list[int]:
        return self._encoder.tokenizer(text, add_special_tokens=False)["input_ids"]

    def _needles(self, random: np.random.Generator) -> list[_Needle]:
        pairs = [(kind, name) for kind in KINDS for name in NAMES]
        drawn = random.choice(len(pairs), self._options.needles, replace=False)
        found = []
        for kind, name in (pairs[number] for number in drawn):
            begins, answered, ends = KINDS[kind]
            cue = self._encode(" " + begins.format(name))
            answer = self._encode(" " + answered(random))
            found.append(_Needle(kind, cue, answer, [*cue, *answer, *self._encode(ends)]))
        return found

    def _text(self, random: np.random.Generator, length: int) -> AskedText:
        needles, start = self._needles(random), self._encoder.start_ids
        room = length - len(start) - sum(len(each.ids) for each in needles)
        last = room - self._options.recent
        if last < 1:
            raise InputError(
                f"Expected lengths of at least {amount(length - last + 1, 'token')}, which the "
                f"needles and the recent tokens behind them take, got {length}. Give larger "
                "--lengths, or fewer --needles."
            )
        hay = list(self._hay(random, room))
        cuts = np.cumsum([0, *map(len, hay)])[:-1]  # between sentences only
        first = max(0, self._options.sink - len(start) - min(len(each.cue) for each in needles))
        shares = (np.arange(len(needles)) + random.random(len(needles))) / len(needles)
        wanted = first + shares * (last - first)
        allowed = np.flatnonzero((first <= cuts) & (cuts <= last))
        if not len(allowed):
            raise InputError(
                f"Expected a place between two texts for needles behind the first "
                f"{self._options.sink} and before the last {self._options.recent} of "
                f"{amount(length, 'token')}, got none. Write each sentence on a line, or lower "
                "--sink or --recent."
            )
        places = [int(allowed[np.abs(cuts[allowed] - each).argmin()]) for each in wanted]
        asked = {
            number
            for number, sentence in enumerate(hay[:-1])
            if number not in places and cuts[number] >= room / 4 and len(sentence) >= SHORTEST
        }
        if len(asked) > self._options.sentences:
            chosen = random.choice(sorted(asked), self._options.sentences, replace=False)
            asked = {int(number) for number in chosen}
        ids, questions = [*start], list[Question]()
        for number, sentence in enumerate(hay):
            for needle, place in zip(needles, places, strict=True):
                if place == number:
                    ids += needle.ids
            if number in asked:
                questions.append(self._next(random, ids, sentence[:LONGEST]))
            ids += sentence
        questions += (
            Question(each.kind, len(ids), tuple(each.cue), (tuple(each.answer),))
            for each in needles
        )
        return AskedText(tuple(ids), tuple(questions))

    def _next(
        self, random: np.random.Generator, ids: Sequence[int], sentence: list[int]
    ) -> Question:
        """Which sentence follows; the token before it is the cue, since it predicts the first."""
        others = [each for each in self._sentences if each != sentence]
        drawn = random.choice(len(others), CHOICES - 1, replace=False)
        answers = [sentence, *(others[number] for number in drawn)]
        return Question(NEXT, len(ids) - 1, (ids[-1],), tuple(map(tuple, answers)))

    def _hay(self, random: np.random.Generator, room: int) -> Iterator[list[int]]:
        """Texts from a random one on, the last of them cut to fit."""
        number = int(random.integers(len(self._texts)))
        while room > 0:
            text = self._texts[number % len(self._texts)][:room]
            yield text
            room, number = room - len(text), number + 1
