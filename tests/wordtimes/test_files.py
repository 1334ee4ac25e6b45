"""Recordings and word times in every form that is read."""

from pathlib import Path
from shutil import copy
from typing import Any

import datasets
import numpy as np
import pytest
import soundfile

from headcount.core import CorpusError
from headcount.corpora import read_recordings
from headcount.corpora.recordings import ENDINGS
from headcount.wordtimes import TimedWord
from headcount.wordtimes.word_files import read_word_times
from tests import speech

ROWS = (("take0", "a dog"), ("take2", "the old dog"))
TABLES = {
    "takes.tsv": "audio\ttext\n" + "".join(f"{name}.wav\t{text}\n" for name, text in ROWS),
    "takes.csv": "file_name,sentence\n" + "".join(f"{name}.wav,{text}\n" for name, text in ROWS),
    "takes.jsonl": "".join(
        f'{{"audio_filepath": "{name}.wav", "text": "{text}"}}\n' for name, text in ROWS
    ),
}
"""The same recordings as tables of other kinds."""


@pytest.mark.parametrize("name", TABLES)
def test_a_table_and_a_folder_with_one(tmp_path: Path, sound: Path, name: str) -> None:
    for take, _ in ROWS:
        copy(sound / f"{take}.wav", tmp_path)
    (tmp_path / name).write_text(TABLES[name])
    for place in (tmp_path / name, tmp_path):
        found = read_recordings(place)
        assert [(each.name, each.text) for each in found] == [*ROWS]
        assert all(each.path.exists() for each in found)


def test_a_data_set_with_a_column_of_sound(sound: Path) -> None:
    """As `datasets` stores it, bytes or a path: never decoded, which would need torchcodec."""
    paths = [sound / f"{name}.wav" for name, _ in ROWS]
    cells = [{"bytes": paths[0].read_bytes(), "path": None}, {"bytes": None, "path": str(paths[1])}]
    columns = {
        "id": [name for name, _ in ROWS],
        "audio": cells,
        "sentence": [text for _, text in ROWS],
        "client_id": ["a", "b"],
    }
    make: Any = datasets.Dataset.from_dict
    data = make(columns).cast_column("audio", datasets.Audio())
    found = read_recordings(data)
    assert [(each.name, each.text, each.speaker) for each in found] == [
        (*row, speaker) for row, speaker in zip(ROWS, "ab", strict=True)
    ]
    assert len(found[0].samples(speech.RATE, 1.0)[0]) == 8000
    with pytest.raises(CorpusError, match="expected sound in column 'audio', got int"):
        read_recordings({"audio": [1], "text": ["a"]})


@pytest.mark.parametrize("ending", ENDINGS)
def test_sound_of_every_kind_is_the_mean_of_its_channels(tmp_path: Path, ending: str) -> None:
    """A tone on the left and silence on the right, also in files that lose a little."""
    tone = 0.5 * np.sin(2 * np.pi * 440 * np.arange(32_000) / 32_000)
    soundfile.write(tmp_path / f"tone{ending}", np.stack([tone, 0 * tone], 1), 32_000)
    (tmp_path / "tone.txt").write_text("a")
    (recording,) = read_recordings(tmp_path)
    samples, done = recording.samples(speech.RATE, 2.0)
    assert done == "mixed 2 channels to one and resampled from 32,000 to 16,000 Hz"
    assert len(samples) == pytest.approx(speech.RATE, rel=0.1) and recording.lasts > 0.9
    loud = 2 * np.abs(np.fft.rfft(samples[2000:14_000])) / 12_000
    assert np.argmax(loud) * speech.RATE / 12_000 == pytest.approx(440, abs=2)
    assert loud.max() == pytest.approx(0.25, rel=0.05)


def test_recordings_that_are_not_there(tmp_path: Path, sound: Path) -> None:
    with pytest.raises(CorpusError, match="nowhere does not exist"):
        read_recordings(tmp_path / "nowhere")
    with pytest.raises(CorpusError, match="Expected recordings in .* got none"):
        read_recordings(tmp_path)
    copy(sound / "take0.wav", tmp_path)
    with pytest.raises(CorpusError, match="the transcript of .*take0.wav in take0.txt beside it"):
        read_recordings(tmp_path)
    (tmp_path / "take0.txt").write_text("a dog")
    (tmp_path / "more").mkdir()
    for ending in ("wav", "txt"):
        copy(tmp_path / f"take0.{ending}", tmp_path / "more")
    with pytest.raises(CorpusError, match="got take0 twice"):
        read_recordings(tmp_path)


GRID = """File type = "ooTextFile"
Object class = "TextGrid"
item []:
    item [1]:
        class = "IntervalTier"
        name = "phones"
        intervals [1]:
            xmin = 0
            xmax = 0.1
            text = "D"
    item [2]:
        class = "IntervalTier"
        name = "words"
        intervals [1]:
            xmin = 0
            xmax = 0.25
            text = "a"
        intervals [2]:
            xmin = 0.25
            xmax = 0.3
            text = ""
        intervals [3]:
            xmin = 0.3
            xmax = 0.5
            text = "dog"
"""
FILES = {
    "words.ctm": ";; comment\ntake0 1 0.30 0.20 dog 0.9\ntake0 1 0.00 0.25 a\n",
    "words.jsonl": '{"recording": "take0", "word": "a", "start": 0, "end": 0.25}\n'
    '{"recording": "take0", "word": "dog", "start": 0.3, "end": 0.5}\n',
    "take0.TextGrid": GRID,
}
"""The same word times in files of other kinds."""


@pytest.mark.parametrize("name", FILES)
def test_word_times_of_every_kind(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(FILES[name])
    expected = {"take0": [TimedWord("a", 0.0, 0.25), TimedWord("dog", 0.3, 0.5)]}
    assert read_word_times(tmp_path / name) == expected
    if name.endswith("TextGrid"):
        assert read_word_times(tmp_path) == expected


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.ctm", "take0 1 0.3\n", "a.ctm:1: expected RECORDING CHANNEL START DURATION WORD"),
        ("a.jsonl", '{"word": "a"}\n', 'a.jsonl:1: expected {"recording"'),
        ("a.TextGrid", "nothing", "expected a tier of intervals in Praat's long form"),
        ("a.srt", "1", "Expected word times in a file that ends in .ctm, .jsonl, .TextGrid"),
    ],
)
def test_word_times_that_cant_be_read(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(CorpusError) as error:
        read_word_times(tmp_path / name)
    assert said in str(error.value)
