"""Programs of a Whisper's encoder, whose heads look at frames of sound by their times."""

import wave
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, final

import numpy as np
from transformers import WhisperFeatureExtractor

from headcount.corpora import Recording, Sentence, recorded
from headcount.testing.architectures import BINS, POSITIONS
from headcount.testing.programs import Family, Planting

RATE = 16_000
"""Samples in a second, which is all that the model hears at once."""
BEGIN, UNTIMED = "<|startoftranscript|>", "<|notimestamps|>"
"""The tokens that begin a transcript."""
TRANSCRIPT = "badigulms"


@final
@dataclass(frozen=True)
class Frames(Planting):
    """Heads of the encoder of a Whisper that hears nothing: a frame is its time."""

    site: ClassVar[str] = "encoder.self"
    families: ClassVar[tuple[Family, ...]] = ("frames",)
    kinds = ("offset", "near", "idle")


@cache
def _folder() -> TemporaryDirectory[str]:
    """A folder for sound, which is deleted when the process ends."""
    return TemporaryDirectory()


@cache
def place() -> str:
    """A folder that says how the model reads sound: two steps of a spectrogram are a frame."""
    extract: Any = WhisperFeatureExtractor
    read = extract(feature_size=BINS, hop_length=RATE // POSITIONS // 2, chunk_length=1)
    read.save_pretrained(_folder().name)
    return _folder().name


def drawn_recordings(number: int) -> tuple[Sentence, ...]:
    """Examples of a corpus of sound: noise of half a second and more."""
    rng, found = np.random.default_rng(11), list[Sentence]()
    for each in range(number):
        path = Path(_folder().name) / f"{each:04}.wav"
        samples_N = rng.normal(0, 3000, int(rng.uniform(0.5, 0.9) * RATE))
        with wave.open(str(path), "wb") as file:
            file.setparams((1, 2, RATE, 0, "NONE", ""))
            file.writeframes(samples_N.astype("<i2").tobytes())
        found.append(recorded(Recording(path.stem, path, TRANSCRIPT)))
    return tuple(found)
