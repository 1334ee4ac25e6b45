"""Expected scores: what the score of a role would be in new texts of the same kind.

A role is given to cells whose score in the second half of the corpus reaches a threshold, so the
scores of roles just above it are too high. The expected score takes the gains over the null in both
halves, averaged, and shrinks them to the mean of the site's heads (`statistics/estimates.py`). It
differs from the score in the direction in which chance has picked.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.stats import t as student

from headcount.core import Head
from headcount.results.profiles import Profiles, TraitStrength, kind_of_trait
from headcount.statistics import ALPHA, shrunken
from headcount.vocabulary import Thresholds


@final
@dataclass(frozen=True)
class BothHalves:
    """A trait of a head in both halves of the corpus, in the unit of its score."""

    null: float
    """Score that the null explains; 0 for a relation, whose score is a gain."""
    gain: float
    """Mean gain of the halves over it."""
    error: float
    """Standard error of that gain."""
    most: float
    """Score of a perfect head, which no expected score exceeds."""

    @classmethod
    def of(cls, row: TraitStrength) -> "BothHalves | None":
        """The gain of a row; None for blocks, whose score is another number, and what is untested.

        Both halves have about as many texts, so their standard errors are taken to be equal.
        """
        role = kind_of_trait(row).role
        if not role.has_certainty or row.verdict == "untested" or row.units < 2 or not row.share:
            return None
        scale = 1.0 if role.is_gain else row.score / row.share
        null = (row.chance if role.is_gain else row.null) * scale
        margin = (row.high - row.low) / 2 * (row.attainable - row.null) * scale
        error = margin / float(student.isf(ALPHA, row.units - 1)) / math.sqrt(2)
        gain = (row.share * scale - null + row.first_gain) / 2
        most = math.inf if role.is_gain else row.attainable * scale
        return cls(null, gain, error, most) if math.isfinite(gain + error) else None

    def score(self, limits: Thresholds, row: TraitStrength, gain: float | None = None) -> float:
        """The score for the gain, or for another one."""
        gain = self.gain if gain is None else gain
        if kind_of_trait(row).role.is_gain:
            return limits.syntactic_excess(row.chance + gain, row.chance)
        return min(self.null + gain, self.most)


def expected_scores(profiles: Profiles, limits: Thresholds) -> dict[tuple[str, str], float]:
    """The expected score of every tested trait, by head and trait."""
    groups: dict[tuple[str, str], list[tuple[TraitStrength, BothHalves]]] = {}
    for row in _rows(profiles):
        if (both := BothHalves.of(row)) is not None:
            groups.setdefault((Head.parse(row.head).site, row.trait), []).append((row, both))
    found = {}
    for group in groups.values():
        gains = np.array([[both.gain, both.error] for _, both in group]).T
        for (row, both), gain in zip(group, shrunken(*gains).tolist(), strict=True):
            found[row.head, row.trait] = both.score(limits, row, gain)
    return found


def _rows(profiles: Profiles) -> Iterable[TraitStrength]:
    return (row for rows in profiles.values() for row in rows)
