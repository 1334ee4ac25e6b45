"""Recordings beside texts: how rows have them, and what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from headcount import Corpus, CorpusError, Loaded, ModelError
from headcount.models import encoder_of
from tests import speech, tiny_pictures, tiny_sound
from tests.tasks.loaded import loaded

pytestmark = pytest.mark.filterwarnings("ignore:.*(heard no sound|saw no image)")
ASKED = {"type": "text", "text": "what is it ?"}
BARE = {"messages": [{"role": "user", "content": [{"type": "audio"}, ASKED]}]}


@pytest.fixture(scope="module")
def hearing() -> Loaded:
    return tiny_sound.loaded()


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return speech.recordings(tmp_path_factory.mktemp("rows") / "sound")


def tokens(loaded: Loaded, *rows: Any) -> list[list[int]]:
    corpus = Corpus([*rows])
    return [each.source.ids for each in encoder_of(loaded, corpus).encode([*corpus])]


def test_all_forms_of_a_row_are_one(hearing: Loaded, sound: Path) -> None:
    """Parts of messages, a column of recordings, and bytes; a file at another rate is resampled."""
    path = sound / "take0.wav"
    part = {"type": "audio", "audio": str(path)}
    url = {"type": "audio_url", "audio_url": {"url": path.as_uri()}}
    samples, rate = soundfile.read(path)
    soundfile.write(sound / "twice.flac", np.stack([samples.repeat(2)] * 2, 1), 2 * rate)
    found = tokens(
        hearing,
        *({"messages": [{"role": "user", "content": [each, ASKED]}]} for each in (part, url)),
        BARE | {"audio": str(path)},
        BARE | {"audios": [{"bytes": path.read_bytes(), "path": None}]},
        BARE | {"audio": str(sound / "twice.flac")},
    )
    assert all(each == found[0] for each in found)
    stock = hearing.processor(text="<|AUDIO|>", audio=[samples], sampling_rate=rate)
    heard = hearing.config.audio_token_index
    assert found[0].count(heard) == len(stock["input_ids"][0]) > 1


def test_paths_are_relative_to_the_file(hearing: Loaded, sound: Path) -> None:
    rows = [tiny_sound.chat(Path("take1.wav")), BARE | {"audio": "take1.wav"}]
    (sound / "rows.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in rows))
    corpus = Corpus(sound / "rows.jsonl")
    assert {each.path for one in corpus for each in one.pictures} == {sound / "take1.wav"}
    assert len(encoder_of(hearing, corpus).encode([*corpus])) == 2


def test_what_is_refused(hearing: Loaded, sound: Path, tmp_path: Path) -> None:
    """Silence, sound that is too long, other files, other numbers of recordings, and pictures."""
    soundfile.write(tmp_path / "silent.wav", np.zeros(speech.RATE // 2), speech.RATE)
    soundfile.write(tmp_path / "long.wav", np.full(3 * speech.RATE, 0.1), speech.RATE)
    (tmp_path / "text.wav").write_text("no sound")
    for name, why in (
        ("silent", "is silent. Fix or remove it"),
        ("long", "is longer than 1 s: cut it at pauses"),
        ("text", "can't be read as sound"),
        ("none", "expected a recording, but it can't be read: No such file"),
    ):
        with pytest.raises(CorpusError, match=why):
            tokens(hearing, tiny_sound.chat(tmp_path / f"{name}.wav"))
    takes = [str(sound / f"take{n}.wav") for n in (0, 1)]
    with pytest.raises(CorpusError, match="got 2 recordings for 1 place"):
        tokens(hearing, BARE | {"audios": takes})
    shown = tiny_pictures.chat(tiny_pictures.picture(tmp_path / "0.png"))
    with pytest.raises(CorpusError, match="a part of the type image.* Only recordings and texts"):
        tokens(hearing, shown)
    seeing = tiny_pictures.loaded("llava")
    with pytest.raises(CorpusError, match="a part of the type audio.* Only pictures and texts"):
        tokens(seeing, tiny_sound.chat(sound / "take0.wav"))
    with pytest.raises(ModelError, match="reads pictures beside texts, or sound, got .*gpt2"):
        tokens(loaded("GPT2LMHeadModel"), tiny_sound.chat(sound / "take0.wav"))
