"""Speech whose word times are known: sentences spoken by ten voices of eSpeak NG.

    python -m benchmarks.spoken OUT SENTENCES [--number 400]

SENTENCES has an English sentence per line; of a table, the first column. OUT gets recordings,
`recordings.tsv` (audio, text, speaker) and `words.ctm`. A word ends where the next begins or a
pause does, as the library's events say. Debian's `espeak-ng` has the library.
"""

import argparse
import ctypes
import re
from collections.abc import Iterator
from ctypes.util import find_library
from dataclasses import dataclass
from pathlib import Path

import numpy as np

VOICES = (
    *("en-us", "en", "en-gb-scotland+m3", "en-us+f2", "en+f4"),
    *("en-us+m7", "en-gb-x-rp", "en-us+f3", "en-gb-x-gbclan+m2", "en-029+f1"),
)
"""The voices, in turn."""
WORD, PHONEME = 1, 7
_RETRIEVAL, _PHONEMES, _UTF8 = 1, 1, 1
_RATE, _GAP = 1, 7


class _Event(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("identifier", ctypes.c_uint),
        ("position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("milliseconds", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user", ctypes.c_void_p),
        ("name", ctypes.c_char * 8),
    ]


_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event)
)


@dataclass(frozen=True)
class Spoken:
    """A sentence as it was spoken."""

    samples: np.ndarray
    """From −1 to 1."""
    words: list[tuple[str, float, float]]
    """Every word with the seconds at which it begins and ends."""


class Speaker:
    """The library, which exists once in a process."""

    def __init__(self) -> None:
        name = find_library("espeak-ng")
        if name is None:
            raise SystemExit("Expected the library of eSpeak NG. apt-get install espeak-ng")
        self._library = ctypes.CDLL(name)
        self.rate = self._library.espeak_Initialize(_RETRIEVAL, 0, None, _PHONEMES)
        self._samples, self._events = list[np.ndarray](), list[tuple[int, int, int, str]]()
        self._heard = _CALLBACK(self._hear)
        self._library.espeak_SetSynthCallback(self._heard)

    def _hear(self, samples, number, events) -> int:
        if number and samples:
            self._samples.append(np.ctypeslib.as_array(samples, (number,)).copy())
        at = 0
        while events[at].type:
            each = events[at]
            name = each.name.decode("utf8", "replace")
            self._events.append((each.type, each.position, each.sample, name))
            at += 1
        return 0

    def speak(self, text: str, voice: str, words_per_minute: int, gap: int) -> Spoken | None:
        """Speak a sentence; None if it is not spoken word by word ("of the" is one to eSpeak)."""
        self._samples.clear()
        self._events.clear()
        library, encoded = self._library, text.encode()
        if library.espeak_SetVoiceByName(voice.encode()):
            raise SystemExit(f"Expected a voice of eSpeak NG, got {voice}.")
        library.espeak_SetParameter(_RATE, words_per_minute, 0)
        library.espeak_SetParameter(_GAP, gap, 0)
        library.espeak_Synth(encoded, len(encoded) + 1, 0, 0, 0, _UTF8, None, None)
        library.espeak_Synchronize()
        samples = np.concatenate(self._samples) / 2**15
        spans = [match.span() for match in re.finditer(r"\S+", text)]
        begun = {position - 1: sample for kind, position, sample, _ in self._events if kind == WORD}
        if [*begun] != [start for start, _ in spans]:
            return None
        pauses = [
            sample
            for kind, _, sample, name in self._events
            if kind == PHONEME and name.startswith("_")
        ]
        starts = [*begun.values(), len(samples)]
        words = []
        for (first, last), start, following in zip(spans, starts, starts[1:], strict=False):
            end = min([each for each in pauses if start < each < following], default=following)
            words.append((text[first:last], start / self.rate, end / self.rate))
        return Spoken(samples, words)


def place(spoken: Spoken, rate: int, generator: np.random.Generator) -> Spoken:
    """The same with silence around it and, for one recording in three, noise."""
    before, after = generator.uniform(0, 0.8), generator.uniform(0, 1.2)
    zeros = [np.zeros(int(seconds * rate)) for seconds in (before, after)]
    samples = np.concatenate([zeros[0], spoken.samples, zeros[1]])
    if generator.random() < 1 / 3:
        decibels = generator.uniform(5, 25)
        loudness = np.sqrt((spoken.samples**2).mean()) * 10 ** (-decibels / 20)
        samples = samples + generator.normal(0, loudness, len(samples))
    shift = len(zeros[0]) / rate
    words = [(word, start + shift, end + shift) for word, start, end in spoken.words]
    return Spoken(samples.clip(-1, 1), words)


def sentences(path: Path) -> list[str]:
    """Distinct sentences of 5 to 16 plain words, in an order that does not follow the file's."""
    lines = path.read_text(encoding="utf-8").splitlines()
    firsts = dict.fromkeys(line.split("\t")[0].strip() for line in lines)
    plain = [each for each in firsts if re.fullmatch(r"[A-Z][A-Za-z', ]+[.?!]", each)]
    some = [each for each in plain if 5 <= len(each.split()) <= 16]
    return [some[place] for place in np.random.default_rng(0).permutation(len(some))]


def write(folder: Path, texts: Iterator[str], number: int) -> None:
    """Speak as many sentences and write them."""
    import soundfile

    folder.mkdir(parents=True)
    speaker, generator = Speaker(), np.random.default_rng(0)
    rows, words = ["audio\ttext\tspeaker"], list[str]()
    while len(rows) <= number:
        text, voice = next(texts), VOICES[len(rows) % len(VOICES)]
        speed, gap = int(generator.integers(120, 220)), int(generator.choice([0, 0, 2, 10]))
        if (spoken := speaker.speak(text, voice, speed, gap)) is None:
            continue
        placed, name = place(spoken, speaker.rate, generator), f"{len(rows):03}.flac"
        soundfile.write(folder / name, placed.samples, speaker.rate)
        rows.append(f"{name}\t{text}\t{voice}")
        words += [
            f"{name.removesuffix('.flac')} 1 {start:.3f} {end - start:.3f} {word}"
            for word, start, end in placed.words
        ]
    (folder / "recordings.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "words.ctm").write_text("\n".join(words) + "\n", encoding="utf-8")


def main() -> None:
    """Write the recordings, their transcripts and word times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("sentences", type=Path)
    parser.add_argument("--number", type=int, default=400, help="number of recordings")
    given = parser.parse_args()
    write(given.out, iter(sentences(given.sentences)), given.number)


if __name__ == "__main__":
    main()
