"""Lists of heads: what is read from several maps together, and which lists are best.

A list is found without word times, or with them: the k best heads, or greedily, each next head the
one that leaves the smallest error. With word times, lists are chosen on one half of the recordings
and tested on the other.

Errors are how far starts and ends of words are off, with intervals over recordings.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, final

import numpy as np
from jaxtyping import Float, Int

from headcount.statistics import Bootstrap, Estimate
from headcount.wordtimes.warping import starts

FEWEST = 0.01
"""Milliseconds by which another head must lower the error to be added."""
TOLERANCES = (50, 100, 200)
"""Milliseconds by which a start may be off."""


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


@final
class MapsOnDisk:
    """The maps of a recording, in half precision in a file that holds those of all.

    An hour of speech has 0.5 GB of them in the smallest Whisper, which has 24 heads. Those of few
    are read again.

    Args:
        file: the file, to whose end they are written.
        maps_HRF: the maps.
    """

    def __init__(self, file: IO[bytes], maps_HRF: Float[np.ndarray, "head row frame"]) -> None:
        self._file, self._begin = file, file.seek(0, os.SEEK_END)
        self._shape, held = maps_HRF.shape[1:], maps_HRF.astype(np.float16)
        self.num_bytes = file.write(held.tobytes())
        """Size on disk."""
        self._each = self.num_bytes // len(maps_HRF)

    def mean(self, heads: Sequence[int]) -> Float[np.ndarray, "row frame"]:
        """The mean of some heads' maps."""
        return np.stack([*map(self._of, heads)]).astype(np.float32).mean(0)

    def _of(self, head: int) -> Float[np.ndarray, "row frame"]:
        self._file.seek(self._begin + head * self._each)
        return np.frombuffer(self._file.read(self._each), np.float16).reshape(self._shape)


@final
@dataclass(frozen=True, eq=False)
class Heard:
    """What is kept of a recording: standardised maps, and the paths through each."""

    maps: MapsOnDisk
    """Standardised maps."""
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
        return self.spans(starts(self.maps.mean(heads)[None])[0])

    def spans_with(
        self, heads: Sequence[int], others: Sequence[int]
    ) -> list[Float[np.ndarray, "_ 2"]]:
        """The same for some heads and, in turn, one of some others."""
        means = np.stack([self.maps.mean([*heads, other]) for other in others])
        return [self.spans(starts_R) for starts_R in starts(means)]

    def evenly(self) -> Float[np.ndarray, "word 2"]:
        """Words that last as long as each other, from the first to the last frame."""
        bounds_W = np.linspace(0, self.seconds, len(self.first_rows))
        return np.stack([bounds_W[:-1], bounds_W[1:]], axis=1)


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
