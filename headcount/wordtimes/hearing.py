"""What a model says of every recording that can be used, and why the others are left out."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from headcount.core import CorpusError, Progress, amount, check_memory
from headcount.corpora import Recording, UnusableError
from headcount.wordtimes.forcing import Forcing
from headcount.wordtimes.head_scores import map_scores
from headcount.wordtimes.lists import Heard
from headcount.wordtimes.warping import standardised, starts

FAR_ABOVE = 6.0
"""Standard deviations above the median loss, by the median absolute deviation, from which a
transcript is taken for that of another recording."""
LEAST_ABOVE = 2.0
"""Nats by which such a loss is above the median at least."""
NAMED = 3
"""Number of recordings that a warning names."""


@final
@dataclass(frozen=True, eq=False)
class Hearing:
    """The recordings that were read, and what their maps say of heads."""

    heard: tuple[Heard, ...]
    recordings: tuple[Recording, ...]
    """The same recordings as they were given."""
    scores_SCH: Float[np.ndarray, "recording score head"]
    """What `head_scores.MAP_SCORES` names."""
    left_out: tuple[str, ...]
    """Why recordings were left out."""
    prepared: tuple[str, ...]
    """How sound was resampled or mixed."""

    @property
    def seconds(self) -> float:
        """Length of all recordings."""
        return sum(each.seconds for each in self.heard)


def hear(forcing: Forcing, recordings: Sequence[Recording], progress: Progress) -> Hearing:
    """Read all recordings with their transcripts.

    Raises:
        CorpusError: if none can be used.
        InputError: if their maps do not fit in memory.
    """
    speech = forcing.speech
    left, done = defaultdict[str, list[str]](list), Counter[str]()
    found = list[tuple[Recording, Heard, Float[np.ndarray, "_ _"], float]]()
    for number, recording in enumerate(recordings, start=1):
        try:
            samples_N, how = recording.samples(speech.rate, speech.longest)
            forced = forcing.of(samples_N, recording.words)
        except UnusableError as error:
            left[str(error)].append(recording.name)
            continue
        gains_HRF = standardised(forced.maps_HRF, forcing.width)
        kept = Heard(
            gains_HRF=gains_HRF.astype(np.float16),
            starts_HR=starts(gains_HRF),
            first_rows=forced.first_rows,
            frame_seconds=speech.frame_seconds,
            seconds=len(samples_N) / speech.rate,
        )
        if not found:
            check_memory(kept.gains_HRF.nbytes * len(recordings), "the maps of all recordings")
        scores = map_scores(forced.maps_HRF, gains_HRF, kept.starts_HR)
        found.append((recording, kept, scores, forced.loss))
        done[how] += 1
        progress("listening", number, len(recordings))
    is_own = fits([loss for *_, loss in found])
    left["has a transcript that the model finds far less likely than the others'"] = [
        each[0].name for each, fits in zip(found, is_own, strict=True) if not fits
    ]
    used = [each for each, fits in zip(found, is_own, strict=True) if fits]
    left_out = tuple(_left_out(left, len(recordings)))
    if not used:
        why = "; ".join(left_out)
        raise CorpusError(f"Expected a recording that can be used, got none: {why}.")
    return Hearing(
        tuple(heard for _, heard, *_ in used),
        tuple(recording for recording, *_ in used),
        np.stack([scores for _, _, scores, _ in used]),
        left_out,
        tuple(_done(done, len(recordings))),
    )


def fits(losses: Sequence[float]) -> list[bool]:
    """Whether each transcript is as likely as those of other recordings are."""
    if not losses:
        return []
    middle = float(np.median(losses))
    spread = 1.4826 * float(np.median(np.abs(np.array(losses) - middle)))
    most = middle + max(LEAST_ABOVE, FAR_ABOVE * spread)
    return [loss <= most for loss in losses]


def _left_out(left: dict[str, list[str]], number: int) -> Iterator[str]:
    for reason, names in left.items():
        if names:
            more = len(names) - NAMED
            shown = ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
            yield f"{len(names):,} of {amount(number, 'recording')} left out: {shown} {reason}"


def _done(done: Counter[str], number: int) -> Iterator[str]:
    for how, times in done.items():
        if how:
            yield f"{times:,} of {amount(number, 'recording')} {how}."
