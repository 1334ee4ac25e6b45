"""Lists of heads: what is read from several maps together, and which lists are best.

A list is found without word times, or with them: the k best heads, or greedily, each next head the
one that leaves the smallest error. With word times, lists are chosen on one half of the recordings
and tested on the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float, Int

from headcount.wordtimes.errors import Errors, errors_of
from headcount.wordtimes.warping import starts

FEWEST = 0.01
"""Milliseconds by which another head must lower the error to be added."""


@final
@dataclass(frozen=True, eq=False)
class Heard:
    """What is kept of a recording: standardised maps, and the paths through each."""

    gains_HRF: Float[np.ndarray, "head row frame"]
    """Standardised maps, in half precision."""
    starts_HR: Int[np.ndarray, "head row"]
    """The frames at which rows begin, by the path of each head."""
    first_rows: tuple[int, ...]
    """The row of the first token of every word, and last that of the end."""
    frame_seconds: float
    seconds: float
    """Length of the recording."""

    def spans(self, starts_R: Int[np.ndarray, " row"]) -> Float[np.ndarray, "word 2"]:
        """Seconds at which words begin and end, from the frames at which rows begin."""
        bounds_W = starts_R[[*self.first_rows]] * self.frame_seconds
        return np.stack([bounds_W[:-1], bounds_W[1:]], axis=1)

    def spans_of(self, heads: Sequence[int]) -> Float[np.ndarray, "word 2"]:
        """Seconds at which words begin and end, by the mean of some heads' maps."""
        return self.spans(starts(self._mean(heads)[None])[0])

    def spans_with(
        self, heads: Sequence[int], others: Sequence[int]
    ) -> list[Float[np.ndarray, "_ 2"]]:
        """The same for some heads and, in turn, one of some others."""
        means = np.stack([self._mean([*heads, other]) for other in others])
        return [self.spans(starts_R) for starts_R in starts(means)]

    def evenly(self) -> Float[np.ndarray, "word 2"]:
        """Words that last as long as each other, from the first to the last frame."""
        bounds_W = np.linspace(0, self.seconds, len(self.first_rows))
        return np.stack([bounds_W[:-1], bounds_W[1:]], axis=1)

    def _mean(self, heads: Sequence[int]) -> Float[np.ndarray, "row frame"]:
        return self.gains_HRF[[*heads]].astype(np.float32).mean(0)


def greedy(
    heard: Sequence[Heard],
    known: Sequence[Float[np.ndarray, "_ 2"]],
    candidates: Sequence[int],
    most: int,
) -> list[int]:
    """Heads that are added one by one, each the one that lowers the error of starts most."""
    chosen, error = list[int](), np.inf
    while len(chosen) < most:
        others = [each for each in candidates if each not in chosen]
        by_recording = [each.spans_with(chosen, others) for each in heard]
        means = [
            errors_of([spans[number] for spans in by_recording], known).mean()[0]
            for number in range(len(others))
        ]
        best = int(np.argmin(means))
        if means[best] > error - FEWEST:
            return chosen
        chosen, error = [*chosen, others[best]], means[best]
    return chosen


def head_errors(heard: Sequence[Heard], known: Sequence[Float[np.ndarray, "_ 2"]]) -> list[Errors]:
    """The errors of every head by its own path."""
    return [
        errors_of([each.spans(each.starts_HR[head]) for each in heard], known)
        for head in range(len(heard[0].starts_HR))
    ]
