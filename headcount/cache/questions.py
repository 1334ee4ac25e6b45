"""Questions that judge a plan: texts with several needles each, and next sentences to choose.

A text of a given length hides needles between its sentences, with all answers behind the first
`sink` tokens and before the last `recent` ones. At its end each is asked for: the words that begin
it are its cue, and it is found if every token of its answer is the likeliest one. At other places
of the text the next sentence is asked for, among three from elsewhere: the likeliest of the four
per token is the model's choice. Other needles than these, in other texts, score retrieval.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from headcount.cache.plan import CacheOptions
from headcount.cache.result import NEXT
from headcount.core import InputError, amount, paced
from headcount.models import Loaded
from headcount.skills import Fact, Hay, Hidden, pick

NAMES = "Abbott Bianchi Cooper Dupont Eriksen Fischer Garcia Hansen Ivanov Jansen".split()
"""People that needles are about."""
LENGTH = 2000
"""Default number of tokens of the longest texts, if texts and model allow it."""
SHORTEST, LONGEST = 6, 24
"""Least and largest number of tokens of a sentence to choose; a longer one is cut."""
CHOICES = 4
"""Number of sentences to choose from."""
_word = pick(
    "anchor basket candle drum feather glove hammer kettle ladder mirror needle pillow".split()
)
_pet = pick("Biscuit Pepper Ginger Shadow Coco Rusty Daisy Felix Luna Oscar".split())
_street = pick("Maple Church Garden River Station Mill Bridge Castle Forest Market".split())

KINDS = {
    "locker": Fact("The locker of {} has the number", lambda r: str(r.integers(100, 1000)), "."),
    "password": Fact("The password of {} is the word", _word, "."),
    "dog": Fact("The dog of {} is called", _pet, "."),
    "train": Fact(
        "The train of {} leaves at",
        lambda r: f"{r.integers(1, 13)}:{r.integers(10, 60)}",
        " tomorrow.",
    ),
    "street": Fact(
        "The new office of {} is at",
        lambda r: f"{r.integers(11, 100)} {_street(r)} Street",
        ", third floor.",
    ),
}
"""Kinds of needles."""


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
class Questions:
    """Texts with questions, of every length.

    Args:
        loaded: a causal language model with its tokenizer.
        texts: what needles are hidden in; consecutive sentences or paragraphs.
        options: how many of what length.

    Raises:
        InputError: if the texts are too short or too few, if their lines leave no place for
            needles, or if there are more needles than different ones.
        ModelError: if the model takes fewer tokens, or there is no chat template.
    """

    def __init__(self, loaded: Loaded, texts: Sequence[str], options: CacheOptions) -> None:
        self.hay, most = Hay(loaded, texts, options.chat, options.template), len(KINDS) * len(NAMES)
        """What the needles are hidden in."""
        self._is_short = False
        if not options.lengths:
            longest = min(self.hay.longest, LENGTH)
            options = replace(options, lengths=(longest // 2, longest))
            self._is_short = longest < LENGTH
        self.options = options
        """What is asked, with lengths that texts and model allow if none were given."""
        self.hay.check(max(options.lengths), "lengths")
        if options.needles > most:
            raise InputError(
                f"Expected at most {amount(most, 'needle')} in a text, since no two are alike, got "
                f"{options.needles}. Use a larger --per-length instead."
            )
        self._sentences = [ids[:LONGEST] for ids in self.hay.lines if len(ids) >= SHORTEST]
        if (different := len(set(map(tuple, self._sentences)))) < CHOICES:
            raise InputError(
                f"Expected at least {CHOICES} different texts of {SHORTEST} tokens or more, to "
                f"choose the next sentence from, got {different}. Write each sentence or paragraph "
                "on a line."
            )
        random = np.random.default_rng(options.seed)
        self.all = tuple(
            text
            for length in options.lengths
            for text in paced(
                (self._text(random, length) for _ in range(options.per_length)),
                options.per_length,
                "texts",
                held=True,
            )
        )
        """The texts, those of one length together."""

    def warnings(self) -> Iterator[str]:
        """What makes the judgement less than it could be."""
        if self._is_short:
            half, longest = self.options.lengths
            yield (
                f"texts of {half:,} and {amount(longest, 'token')} judge the plan, and none of "
                f"{LENGTH:,}, since the texts given, or the model, allow no more. Give longer texts"
            )
        if (drawn := sum(len(text.ids) for text in self.all)) > self.hay.size:
            texts = f"{amount(len(self.all), 'text')} of {amount(drawn, 'token')} in all"
            yield (
                f"{texts} are drawn from only {self.hay.size:,}, so they share sentences, and "
                "intervals over texts are too narrow. Give longer texts"
            )

    def _needles(self, random: np.random.Generator) -> Iterator[tuple[str, Hidden]]:
        """The needles of a text, each with its kind."""
        pairs = [(kind, name) for kind in KINDS for name in NAMES]
        for number in random.choice(len(pairs), self.options.needles, replace=False):
            kind, name = pairs[number]
            yield kind, self.hay.hide(KINDS[kind], name, random)

    def _text(self, random: np.random.Generator, length: int) -> AskedText:
        kinds, needles = zip(*self._needles(random), strict=True)
        start = self.hay.start
        room = length - len(start) - sum(len(each.ids) for each in needles)
        last = room - self.options.recent
        if last < 1:
            raise InputError(
                f"Expected lengths of at least {amount(length - last + 1, 'token')}, which the "
                f"needles and the recent tokens behind them take, got {length}. Give longer texts "
                "and larger --lengths, or fewer --needles."
            )
        hay = self.hay.drawn(random, room)
        cuts = np.cumsum([0, *map(len, hay)])[:-1]  # between sentences only
        first = max(0, self.options.sink - len(start) - min(len(each.cue) for each in needles))
        shares = (np.arange(len(needles)) + random.random(len(needles))) / len(needles)
        wanted = first + shares * (last - first)
        allowed = np.flatnonzero((first <= cuts) & (cuts <= last))
        if not len(allowed):
            raise InputError(
                f"Expected a place between two texts for needles behind the first "
                f"{self.options.sink} and before the last {self.options.recent} of "
                f"{amount(length, 'token')}, got none. Write each sentence on a line, or lower "
                "--sink or --recent."
            )
        places = [int(allowed[np.abs(cuts[allowed] - each).argmin()]) for each in wanted]
        asked = {
            number
            for number, sentence in enumerate(hay[:-1])
            if number not in places and cuts[number] >= room / 4 and len(sentence) >= SHORTEST
        }
        if len(asked) > self.options.sentences:
            chosen = random.choice(sorted(asked), self.options.sentences, replace=False)
            asked = {int(number) for number in chosen}
        ids, questions = [*start], list[Question]()
        for number, sentence in enumerate(hay):
            for needle, place in zip(needles, places, strict=True):
                if place == number:
                    ids += needle.ids
            if number in asked:
                seen = {tuple(each[:LONGEST]) for each in hay[:number]}
                questions.append(self._next(random, ids, sentence[:LONGEST], seen))
            ids += sentence
        questions += (
            Question(kind, len(ids), each.asks, (each.answer,))
            for kind, each in zip(kinds, needles, strict=True)
        )
        return AskedText(tuple(ids), tuple(questions))

    def _next(
        self,
        random: np.random.Generator,
        ids: Sequence[int],
        sentence: list[int],
        seen: Container[tuple[int, ...]],
    ) -> Question:
        """Which sentence follows; the token before it is the cue, since it predicts the first.

        One that the text has had already is likely anywhere, as a copy, so the next that it has not
        had takes its place among the wrong ones.
        """
        others = [each for each in self._sentences if each != sentence]
        answers = [sentence]
        for number in random.choice(len(others), CHOICES - 1, replace=False):
            from_here = others[number:] + others[:number]
            new = (each for each in from_here if tuple(each) not in seen and each not in answers)
            answers.append(next(new, others[number]))
        return Question(NEXT, len(ids) - 1, (ids[-1],), tuple(map(tuple, answers)))
