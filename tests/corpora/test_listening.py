"""Bars count seconds of sound: while recordings are read, and while a model runs on them."""

from collections import defaultdict
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
import soundfile

import headcount as hc
from headcount.corpora import Corpus
from headcount.models import Loaded
from headcount.tasks import build, evaluate
from tests import speech

LASTS = {"a": 0.6, "b": 2.4, "c": 0.5, "d": 1.8}
"""Seconds of the recordings, two of which the model does not read whole."""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return hc.load(speech.whisper(tmp_path_factory.mktemp("whisper")))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, generator = tmp_path_factory.mktemp("sound"), np.random.default_rng(0)
    for name, seconds in LASTS.items():
        samples = generator.normal(0, 0.1, round(seconds * 8000))
        soundfile.write(folder / f"{name}.wav", samples, 8000)
        (folder / f"{name}.txt").write_text("a dog barked all night")
    return folder


class _Bars:
    """What was drawn of every bar."""

    def __init__(self) -> None:
        self.drawn = defaultdict[str, list[tuple[int, int]]](list)

    def __call__(self, stage: str, done: int, total: int) -> None:
        self.drawn[stage].append((done, total))

    def check(self, stage: str, seconds: int) -> None:
        """Check that a bar counts seconds, from none to all, and never falls back."""
        its = self.drawn.pop(f"{stage}, seconds of sound")
        done = [each for each, _ in its]
        assert {total for _, total in its} == {seconds} and done[-1] == seconds, its
        assert done == sorted(done) and len({*done}) > 2, its


def test_bars_of_reading_count_what_cant_be_used(
    loaded: Loaded, sound: Path, tmp_path: Path
) -> None:
    """A silent recording is not cut, of another one piece is silent: both were gone through."""
    from headcount.wordtimes import WordTimesOptions, word_times

    folder = Path(copytree(sound, tmp_path / "sound"))
    loud = np.random.default_rng(0).normal(0, 0.1, 8000)
    for name, samples in (("e", np.zeros(24_000)), ("f", np.concatenate([loud, np.zeros(16_000)]))):
        soundfile.write(folder / f"{name}.wav", samples, 8000)
        (folder / f"{name}.txt").write_text("the old dog")
    bars = _Bars()
    found = word_times(loaded, folder, options=WordTimesOptions(2, samples=50), progress=bars)
    assert any("e is silent" in each for each in found.record.warnings)
    bars.check("cutting", 10)
    bars.check("listening", 11)
    assert not bars.drawn


def test_bars_of_an_analysis(loaded: Loaded, sound: Path) -> None:
    bars = _Bars()
    found = hc.analyze(
        loaded, Corpus.of_recordings(sound), hc.Options(max_tokens=100), progress=bars
    )
    bars.check("cutting", 4)
    bars.check("listening", 5)
    bars.check("measuring", 5)
    assert bars.drawn.keys() == {"examples"} and "sentences_per_s" in found.record.timings


def test_bars_and_warnings_of_a_task(loaded: Loaded, sound: Path) -> None:
    bars = _Bars()
    task = build("transcription", loaded, sound, progress=bars)
    bars.check("cutting", 4)
    bars.check("listening", 5)
    steps = list[tuple[int, int]]()
    evaluate(loaded, task.watched(lambda *each: steps.append(each)), 1, texts=True)
    assert task.bar("dense") == "dense, seconds of sound"
    assert max(steps) == (5, 5) == steps[-1] and len({*steps}) > 3
    cut, how = task.warnings()
    assert cut.startswith("2 of 4 recordings longer than the model reads at once, cut into ")
    assert how.endswith("recordings resampled from 8,000 to 16,000 Hz.")
