"""Removals: how often a model is right without the heads that score best, and without others.

Heads are chosen on one half of the needles or prompts, and answers are counted on the other half;
then the halves change places. So every case counts once, without the heads that the other half
chose. Beside them, as many random other heads are removed.

References: halves that change places: Chernozhukov et al. (2018), section 1,
    https://arxiv.org/abs/1608.00060; the other kind's best heads are left (`apart`): Yin and
    Steinhardt (2025), https://arxiv.org/abs/2502.14010
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int

from headcount.core import (
    ChangedModelError,
    Heads,
    PluginError,
    Steps,
    UnsuitedError,
    falling,
    paced,
    signed_origins,
    spread,
)
from headcount.corpora import Corpus
from headcount.measures import interval
from headcount.models import Loaded, Outputs, Removal
from headcount.skills.options import SkillOptions
from headcount.skills.result import Overlap, OwnSkillRow, RecallRow, SkillRow
from headcount.skills.skill import SKILL_CLASSES, Skill, scored
from headcount.statistics import wilson_interval
from headcount.vocabulary import SkillEntry

SHARE = 0.05
"""Share of a model's heads that are called the best ones."""


@final
@dataclass(frozen=True, eq=False)
class Score:
    """A score of every head, by needle, prompt or text."""

    name: str
    """Its column in the table of heads."""
    value_NH: Float[np.ndarray, "run head"]
    """The scores; only of needles that were found and of tasks that are done."""
    in_second_N: Bool[np.ndarray, " run"]
    """Which of these are in the second half."""
    least: float = 0.0
    """Least possible value."""
    most: float = 1.0
    """Largest possible value."""

    @cached_property
    def halves(self) -> tuple[Float[np.ndarray, " head"], Float[np.ndarray, " head"]]:
        """The means over either half; NaN for an empty one."""
        first, second = (
            _mean(self.value_NH[half]) for half in (~self.in_second_N, self.in_second_N)
        )
        return first, second

    @property
    def is_known(self) -> bool:
        """Whether both halves hold something."""
        return not any(np.isnan(half_H).any() for half_H in self.halves)

    def best(self, num: int) -> Int[np.ndarray, " best"]:
        """Numbers of the heads with the largest means."""
        return best(_mean(self.value_NH), num)

    def bounds(self) -> Float[np.ndarray, "number head"]:
        """Mean, low and high end of the interval, the means over both halves; NaN if unknown."""
        if not self.is_known:
            return np.full((len(_ENDS), self.value_NH.shape[1]), np.nan)
        low_H, mean_H, high_H = interval(self.value_NH, self.least, self.most)
        return np.stack([mean_H, low_H, high_H, *self.halves])


def _mean(value_NH: Float[np.ndarray, "run head"]) -> Float[np.ndarray, " head"]:
    return value_NH.mean(0) if len(value_NH) else np.full(value_NH.shape[1], np.nan)


def num_best(loaded: Loaded) -> int:
    """How many heads of a model are called the best ones."""
    return max(1, round(SHARE * len(loaded.heads)))


def best(score_H: Float[np.ndarray, " head"], num: int) -> Int[np.ndarray, " best"]:
    """Numbers of the heads with the largest scores; the first of equal ones."""
    return falling(score_H)[:num]


def head_rows(heads: Heads, scores: Sequence[Score]) -> Iterator[SkillRow]:
    """A row for each head."""
    bounds = {score.name: score.bounds() for score in scores}
    for h, head in enumerate(heads):
        numbers = {
            name + end: float(number_H[h])
            for name, found in bounds.items()
            for end, number_H in zip(_ENDS, found, strict=True)
        }
        yield SkillRow(str(head), **numbers)


def own_rows(heads: Heads, scores: Sequence[Score]) -> Iterator[OwnSkillRow]:
    """A row for each head and each skill of a plug-in."""
    for score in scores:
        for head, numbers in zip(heads, score.bounds().T.tolist(), strict=True):
            yield OwnSkillRow(str(head), score.name, *numbers)


_ENDS = ("", "_low", "_high", "_first", "_second")


@final
@dataclass(frozen=True)
class OwnSkills:
    """Skills beside those that every run measures: what options name, and classes of a caller's."""

    kinds: tuple[type[Skill], ...]

    @classmethod
    def of(
        cls, options: SkillOptions, ours: Collection[str], own: Sequence[type[Skill]]
    ) -> "OwnSkills":
        """Those that the options name besides ours, and the caller's."""
        named = [each for each in options.skills if each not in ours]
        return cls((*map(SKILL_CLASSES.find, (*named, *own)),))

    @property
    def signed(self) -> dict[str, object]:
        """Their names and origins, for the signature."""
        return {
            "skills": "+".join(each.name for each in self.kinds) or None,
            "plugins": signed_origins(map(SKILL_CLASSES.origin, self.kinds)),
        }

    def scores(self, loaded: Loaded, texts: Corpus, seed: int) -> tuple[list[Score], list[str]]:
        """The scores of the heads, and a sentence for each skill that fails."""
        found, failed = list[Score](), list[str]()
        for number, kind in enumerate(self.kinds, start=1):
            try:
                value_NH = scored(kind, loaded, texts, seed)
            except ChangedModelError as error:
                failed += error.sentences(left.name for left in self.kinds[number:])
                break
            except (PluginError, UnsuitedError) as error:
                failed.append(str(error))
            else:
                least = -np.inf if kind.has_signs else 0.0
                found.append(Score(kind.name, value_NH, every_second(len(value_NH)), least, np.inf))
        return found, failed

    def entries(self, scores: Sequence[Score]) -> Iterator[SkillEntry]:
        """The words of those that were measured."""
        known = {each.name for each in scores}
        return (each.entry() for each in self.kinds if each.name in known)


def overlaps(heads: Heads, scores: Sequence[Score], num: int) -> Iterator[Overlap]:
    """How many of the best heads every two scores share, and two halves of each score."""
    known = [score for score in scores if score.is_known]
    for one, other in combinations_with_replacement(known, 2):
        pair = [one.best(num), other.best(num)]
        if one is other:
            pair = [best(half_H, num) for half_H in one.halves]
        shared = len({*map(int, pair[0])} & {*map(int, pair[1])})
        yield Overlap(one.name, other.name, shared, num, num * num / len(heads))


Chosen = tuple[Int[np.ndarray, " removed"], Int[np.ndarray, " removed"]]
"""Numbers of the heads that are removed from the first half of the cases and from the second."""


@final
@dataclass(frozen=True, eq=False)
class Asked:
    """Cases of one kind, and how well they are answered."""

    name: str
    """What is asked: `needles`, `answers`, `tasks` or `questions`."""
    score: Score
    """The score that chooses heads for these cases."""
    dense_NR: Float[np.ndarray, "case 2"]
    """Whether each case's answer is right with all heads, and which share of it is."""
    in_second_N: Bool[np.ndarray, " case"]
    """Which cases are in the second half."""
    answers: Callable[[Sequence[int], Removal], Float[np.ndarray, "case 2"]]
    """The same of some cases with some heads removed."""
    others: Sequence[Score] = ()
    """Other scores on the same cases, which choose heads on the other half, too."""


@final
class Removals:
    """Answers with all heads, without the best ones, and without random other ones.

    Args:
        loaded: the model.
        asked: the cases.
        others: other scores, whose best heads are removed beside those of the cases' own.
        options: which numbers of heads are removed, and what takes their place.
        means: mean outputs of all heads; None if none is to be replaced by its mean.
        sizes: how many heads are removed if the options don't say so.
    """

    def __init__(
        self,
        loaded: Loaded,
        asked: Asked,
        others: Sequence[Score],
        options: SkillOptions,
        means: Outputs | None,
        sizes: Sequence[int],
    ) -> None:
        self._loaded, self._heads, self._asked, self._means = loaded, [*loaded.heads], asked, means
        self._others = [each for each in others if each.is_known]
        self._options = options
        self._sizes = options.removed or tuple(sizes)

    def rows(self, steps: Steps) -> Iterator[RecallRow]:
        """A row for all heads, and for each set of removed ones."""
        yield recalled(self._asked.name, "none", 0, "", self._asked.dense_NR)
        sets = [chosen for size in self._sizes for chosen in self._sets(size)]
        pairs = [(*chosen, value) for chosen in sets for value in self._options.replace]
        yield from spread(self._row, pairs, "sets of removed heads", steps)

    def _row(self, removed: tuple[str, Chosen, str]) -> RecallRow:
        """The row of some heads that are removed from both halves of the cases."""
        name, chosen, value = removed
        right_NR = np.concatenate(
            [self._without(half, chosen[half], value) for half in (False, True)]
        )
        return recalled(self._asked.name, name, len(chosen[0]), value, right_NR)

    def _sets(self, size: int) -> Iterator[tuple[str, Chosen]]:
        """The sets of heads of a size."""
        whole = len(self._heads)
        ranked = {each.name: (each.best(whole),) * 2 for each in self._others}
        for each in (self._asked.score, *self._asked.others):
            if each.is_known:
                first_H, second_H = each.halves
                ranked[each.name] = (best(second_H, whole), best(first_H, whole))
        left = round(self._options.apart * whole)
        found = dict[str, Chosen]()
        for name, own in ranked.items():
            others = [pair for other, pair in ranked.items() if other != name]
            first, second = (
                order[~np.isin(order, [pair[half][:left] for pair in others])][:size]
                for half, order in enumerate(own)
            )
            found[name] = first, second
        yield from found.items()
        named = [numbers for pair in found.values() for numbers in pair]
        others = np.setdiff1d(np.arange(len(self._heads)), np.concatenate(named))
        random = np.random.default_rng((self._options.seed, size))
        num = self._options.draws if size <= len(others) else 0
        drawn = (random.choice(others, size, replace=False) for _ in range(num))
        for each in paced(drawn, num, "draws", held=True):
            yield "random", (each, each)

    def _without(self, half: bool, removed: np.ndarray, value: str) -> np.ndarray:
        cases = spaced(np.flatnonzero(self._asked.in_second_N == half), self._options.again // 2)
        heads = [self._heads[number] for number in removed]
        means = self._means if value == "mean" else None
        return self._asked.answers(cases, Removal(self._loaded, heads, means))


def spaced(case_C: Int[np.ndarray, " case"], most: int) -> list[int]:
    """At most so many of some cases, at even distances, so that all kinds are among them.

    >>> spaced(np.array([1, 3, 5, 7, 9]), 2), spaced(np.array([1, 3]), 4)
    ([1, 5], [1, 3])
    """
    num = min(most, len(case_C))
    return [int(case_C[place * len(case_C) // num]) for place in range(num)]


def recalled(
    asked: str, removed: str, heads: int, value: str, right_NR: Float[np.ndarray, "case 2"]
) -> RecallRow:
    """The row of some answers."""
    exact, recall = right_NR.mean(0).tolist()
    low, high = wilson_interval(exact, len(right_NR))
    return RecallRow(asked, removed, heads, value, exact, low, high, recall, len(right_NR))


def every_second(num: int) -> Bool[np.ndarray, " case"]:
    """Which cases are in the second half: every second one.

    Both halves have every kind, length and depth if there is an even number of needles of each.
    """
    return np.arange(num) % 2 == 1


def twice(right_N: Bool[np.ndarray, " case"]) -> Float[np.ndarray, "case 2"]:
    """Whether an answer is right or not, and the share of it that is, which is the same."""
    return np.stack([right_N, right_N], axis=1).astype(float)
