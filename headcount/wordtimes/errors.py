"""Errors of word times: how far starts and ends are off, with intervals over recordings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from headcount.statistics import Bootstrap, Estimate

TOLERANCES = (50, 100, 200)
"""Milliseconds by which a start may be off."""
SIDES = ("start", "end")


@final
@dataclass(frozen=True, eq=False)
class Errors:
    """How far off the words of every recording are, in milliseconds, by one choice of heads."""

    off: Sequence[Float[np.ndarray, "_ 2"]]
    """Absolute differences of starts and ends."""

    @property
    def sums_S2(self) -> Float[np.ndarray, "recording 2"]:
        """Sums over the words of each recording."""
        return np.stack([each_W2.sum(0) for each_W2 in self.off])

    @property
    def words_S(self) -> Float[np.ndarray, " recording"]:
        """Numbers of words."""
        return np.array([len(each_W2) for each_W2 in self.off], float)

    def mean(self) -> Float[np.ndarray, "2"]:
        """Mean over all words of the errors of starts and ends."""
        return self.sums_S2.sum(0) / self.words_S.sum()

    def estimates(self, bootstrap: Bootstrap) -> list[Estimate]:
        """The same with intervals."""
        words_S2 = np.stack([self.words_S] * 2, axis=1)
        return bootstrap.ratios(self.sums_S2, words_S2)

    def more_than(self, other: "Errors", bootstrap: Bootstrap) -> Estimate:
        """Error of starts minus that of another choice on the same words."""
        return bootstrap.ratio((self.sums_S2 - other.sums_S2)[:, 0], self.words_S)

    def within(self) -> dict[str, float]:
        """Shares of words that begin at most so many milliseconds off, by the row's fields."""
        starts_W = np.concatenate([each_W2[:, 0] for each_W2 in self.off])
        return {f"within_{most}": float((starts_W <= most).mean()) for most in TOLERANCES}


def errors_of(
    found: Sequence[Float[np.ndarray, "_ 2"]], known: Sequence[Float[np.ndarray, "_ 2"]]
) -> Errors:
    """The errors of some word times, in seconds, against known ones."""
    return Errors([1000 * np.abs(a - b) for a, b in zip(found, known, strict=True)])
