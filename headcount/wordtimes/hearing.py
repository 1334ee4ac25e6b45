"""What a model says of every recording that can be used, and why the others are left out."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from typing import IO, final

import numpy as np
from jaxtyping import Float

from headcount.core import CorpusError, Progress, check_disk
from headcount.corpora import Listening, Recording
from headcount.wordtimes.forcing import Forcing
from headcount.wordtimes.head_scores import map_scores
from headcount.wordtimes.lists import Heard, MapsOnDisk
from headcount.wordtimes.warping import standardised, starts

FAR_ABOVE = 6.0
"""Standard deviations above the median loss, by the median absolute deviation, from which a
transcript is taken for that of another recording."""
LEAST_ABOVE = 2.0
"""Nats by which such a loss is above the median at least."""
OTHERS = "has a transcript that the model finds far less likely than the others'"
"""Why such a recording is left out."""


@final
@dataclass(frozen=True, eq=False)
class Hearing:
    """The recordings that were read, and what their maps say of heads."""

    heard: tuple[Heard, ...]
    recordings: tuple[Recording, ...]
    """The same recordings as they were given, or pieces of those that are too long."""
    scores_SCH: Float[np.ndarray, "recording score head"]
    """What `head_scores.MAP_SCORES` names."""
    left_out: tuple[str, ...]
    """Why recordings were left out."""
    prepared: tuple[str, ...]
    """How sound was cut, resampled or mixed."""

    @property
    def seconds(self) -> float:
        """Length of all recordings."""
        return sum(each.seconds for each in self.heard)


@final
@dataclass(frozen=True, eq=False)
class _Read:
    """What is kept of a recording or a piece of one."""

    recording: Recording
    heard: Heard
    scores_CH: Float[np.ndarray, "score head"]
    loss: float


def hear(
    forcing: Forcing, recordings: Sequence[Recording], file: IO[bytes], progress: Progress
) -> Hearing:
    """Read all recordings with their transcripts, those that are too long in pieces.

    Args:
        forcing: runs the model.
        recordings: the recordings.
        file: gets their maps.
        progress: called with the seconds of sound so far, and of all.

    Raises:
        CorpusError: if none can be used.
        InputError: if their maps do not fit on the disk.
    """
    found, listening = list[_Read](), Listening(forcing.speech, recordings, progress)
    for _, _, read in listening.read(partial(_read, forcing, file)):
        found.append(read)
        if len(found) == 1:
            held, what = read.heard.maps.num_bytes * listening.number, "the maps of all recordings"
            check_disk(Path(gettempdir()), held, what, "Name another folder with TMPDIR.")
    is_own = fits([each.loss for each in found])
    for each, fits_in in zip(found, is_own, strict=True):
        if not fits_in:
            listening.leave_out(each.recording, OTHERS)
    used = [each for each, fits_in in zip(found, is_own, strict=True) if fits_in]
    if not used:
        why = "; ".join(listening.left_out)
        raise CorpusError(f"Expected a recording that can be used, got none: {why}.")
    return Hearing(
        tuple(each.heard for each in used),
        tuple(each.recording for each in used),
        np.stack([each.scores_CH for each in used]),
        listening.left_out,
        listening.prepared,
    )


def _read(forcing: Forcing, file: IO[bytes], recording: Recording) -> tuple[_Read, str]:
    """Read one recording with its transcript; also returns how its sound was prepared.

    Raises:
        UnusableError: if it can't be used.
    """
    speech = forcing.speech
    samples_N, how = recording.samples(speech.rate, speech.longest)
    forced = forcing.of(samples_N, recording.words)
    gains_HRF = standardised(forced.maps_HRF, forcing.width)
    heard = Heard(
        maps=MapsOnDisk(file, gains_HRF),
        starts_HR=starts(gains_HRF),
        first_rows=forced.first_rows,
        frame_seconds=speech.frame_seconds,
        seconds=len(samples_N) / speech.rate,
    )
    scores_CH = map_scores(forced.maps_HRF, gains_HRF, heard.starts_HR)
    return _Read(recording, heard, scores_CH, forced.loss), how


def fits(losses: Sequence[float]) -> list[bool]:
    """Whether each transcript is as likely as those of other recordings are."""
    if not losses:
        return []
    middle = float(np.median(losses))
    spread = 1.4826 * float(np.median(np.abs(np.array(losses) - middle)))
    most = middle + max(LEAST_ABOVE, FAR_ABOVE * spread)
    return [loss <= most for loss in losses]
