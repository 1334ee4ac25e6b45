"""Listening: the pieces of recordings that a model reads at once, and a bar of seconds of sound.

Long recordings are cut first, since the model itself says which words are in a piece.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar, final, runtime_checkable

import numpy as np
from jaxtyping import Float
from torch import Tensor

from headcount.core import CorpusError, Progress, amount
from headcount.corpora.recordings import Recording, UnusableError

T = TypeVar("T")
SECONDS = "seconds of sound"
"""What bars count."""
NAMED = 3
"""Number of recordings that a warning names."""


@runtime_checkable
class Speech(Protocol):
    """What a model makes of sound and of words."""

    @property
    def rate(self) -> int:
        """Samples in a second."""
        ...

    @property
    def longest(self) -> float:
        """Seconds of the longest sound."""
        ...

    @property
    def frame_seconds(self) -> float:
        """Seconds of a frame."""
        ...

    @property
    def hides_silence(self) -> bool:
        """Whether frames behind the end of a recording are masked, by an argument `is_sound`."""
        ...

    def num_frames(self, samples_N: Float[np.ndarray, " sample"]) -> int:
        """Number of frames up to the end of a recording."""
        ...

    def features(self, samples_N: Float[np.ndarray, " sample"]) -> Float[Tensor, "1 bin step"]:
        """The spectrogram of a recording."""
        ...

    def forced(
        self, samples_N: Float[np.ndarray, " sample"], words: Sequence[str]
    ) -> tuple[list[int], list[int]]:
        """The tokens that begin the transcript of a recording, and those of its words."""
        ...

    def cut(self, recording: Recording, heard: Callable[[Recording], None]) -> list[Recording]:
        """Pieces of a recording that the model reads, each with its own words.

        Args:
            recording: the recording.
            heard: called with each piece that the model has listened to.
        """
        ...

    def piece(self, token: int) -> str:
        """The text of a token."""
        ...


@final
class SoundBar:
    """A bar that counts seconds of sound.

    Args:
        progress: what draws it.
        stage: what is done with the sound.
        recordings: all of it.
    """

    def __init__(self, progress: Progress, stage: str, recordings: Iterable[Recording]) -> None:
        self._progress, self._stage = progress, f"{stage}, {SECONDS}"
        self._all = _thousandths(recordings)
        self._before = self._within = 0
        self._shown = -1

    def show(self) -> None:
        """Report the seconds so far, if their number changed."""
        seconds, total = (round(each / 1000) for each in (self._before + self._within, self._all))
        if seconds != self._shown:
            self._shown = seconds
            self._progress(self._stage, seconds, total)

    def add(self, piece: Recording) -> None:
        """Count a piece of a recording."""
        self._within += _thousandths([piece])
        self.show()

    def end(self, recording: Recording) -> None:
        """Count a whole recording, the pieces of it that were counted and those that were not."""
        self._before, self._within = self._before + _thousandths([recording]), 0
        self.show()


def _thousandths(recordings: Iterable[Recording]) -> int:
    """Milliseconds, whose sums do not depend on the order."""
    return sum(round(1000 * each.lasts) for each in recordings)


@final
class Listening:
    """Reads recordings, long ones in pieces, and keeps count of those that can't be used.

    Args:
        speech: the model's way of reading sound and words.
        recordings: the recordings.
        progress: called with the seconds of sound so far, and of all.
        is_strict: whether a recording that can't be used ends it.
    """

    def __init__(
        self,
        speech: Speech,
        recordings: Sequence[Recording],
        progress: Progress,
        is_strict: bool = False,
    ) -> None:
        self._speech, self._recordings, self._is_strict = speech, recordings, is_strict
        self._progress = progress
        self._left = defaultdict[str, list[str]](list)
        self._num_pieces, self._how = list[int](), list[str]()

    def read(self, do: Callable[[Recording], tuple[T, str]]) -> Iterator[tuple[int, Recording, T]]:
        """Yield the number of a recording, a piece that can be used, and what is read of it.

        Args:
            do: reads a piece; also returns what was done to its sound.

        Raises:
            CorpusError: if one can't be used, and it is strict.
        """
        pieces = self._cut()
        bar = SoundBar(self._progress, "listening", self._recordings)
        bar.show()
        for number, its in enumerate(pieces):
            for piece in its:
                try:
                    found, how = do(piece)
                except UnusableError as error:
                    self.leave_out(piece, error)
                else:
                    self._how.append(how)
                    yield number, piece, found
                bar.add(piece)
            bar.end(self._recordings[number])

    def leave_out(self, recording: Recording, why: Exception | str) -> None:
        """Count a recording or a piece that can't be used.

        Raises:
            CorpusError: if it is strict.
        """
        if self._is_strict:
            raise CorpusError(
                f"Expected recordings that can be used, but {recording.path} {why}. Remove it."
            )
        self._left[str(why)].append(recording.label)

    def none_used(self) -> CorpusError:
        """The error that no recording can be used, and why."""
        why = "; ".join(self.left_out)
        return CorpusError(f"Expected a recording that can be used, got none: {why}.")

    def _cut(self) -> list[list[Recording]]:
        """The pieces of every recording; none of one that can't be cut."""
        found, longest = list[list[Recording]](), self._speech.longest
        long = [each for each in self._recordings if each.lasts > longest]
        bar = SoundBar(self._progress, "cutting", long)
        for recording in self._recordings:
            try:
                found.append(self._speech.cut(recording, bar.add))
            except UnusableError as error:
                found.append([])
                self.leave_out(recording, error)
            if recording.lasts > longest:
                bar.end(recording)
        self._num_pieces = [len(its) for its in found if its]
        return found

    @property
    def number(self) -> int:
        """Number of recordings, of which each piece counts."""
        return len(self._recordings) + sum(self._num_pieces) - len(self._num_pieces)

    @property
    def left_out(self) -> tuple[str, ...]:
        """A sentence for every reason why recordings are left out, with the first such names."""
        return (*_left_out(self._left, self.number),)

    @property
    def prepared(self) -> tuple[str, ...]:
        """Sentences on recordings that were cut, resampled or mixed."""
        return (*_prepared(self._num_pieces, self._how),)


def _left_out(reasons: Mapping[str, Sequence[str]], number: int) -> Iterator[str]:
    for why, names in reasons.items():
        more = len(names) - NAMED
        shown = ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
        yield f"{len(names):,} of {amount(number, 'recording')} left out: {shown} {why}"


def _prepared(num_pieces: Sequence[int], how: Sequence[str]) -> Iterator[str]:
    several = [number for number in num_pieces if number > 1]
    if several:
        yield (
            f"{len(several):,} of {amount(len(num_pieces), 'recording')} longer than the model "
            f"reads at once, cut into {amount(sum(several), 'piece')} where it is quiet."
        )
    for done, times in Counter(how).items():
        if done:
            yield f"{times:,} of {amount(len(how), 'recording')} {done}."
