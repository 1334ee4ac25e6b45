"""Scores of heads by runs: means, intervals, halves, and which heads are the best."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int

from headcount.core import Heads
from headcount.results import Overlap, SkillRow
from headcount.skills.induction import interval


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
        low_H, mean_H, high_H = interval(self.value_NH, self.least)
        return np.stack([mean_H, low_H, high_H, *self.halves])


def _mean(value_NH: Float[np.ndarray, "run head"]) -> Float[np.ndarray, " head"]:
    return value_NH.mean(0) if len(value_NH) else np.full(value_NH.shape[1], np.nan)


def best(score_H: Float[np.ndarray, " head"], num: int) -> Int[np.ndarray, " best"]:
    """Numbers of the heads with the largest scores; the first of equal ones."""
    return np.argsort(-score_H, kind="stable")[:num]


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


_ENDS = ("", "_low", "_high", "_first", "_second")


def overlaps(heads: Heads, scores: Sequence[Score], num: int) -> Iterator[Overlap]:
    """How many of the best heads every two scores share, and two halves of each score."""
    known = [score for score in scores if score.is_known]
    for one, other in combinations_with_replacement(known, 2):
        pair = [one.best(num), other.best(num)]
        if one is other:
            pair = [best(half_H, num) for half_H in one.halves]
        shared = len({*map(int, pair[0])} & {*map(int, pair[1])})
        yield Overlap(one.name, other.name, shared, num, num * num / len(heads))
