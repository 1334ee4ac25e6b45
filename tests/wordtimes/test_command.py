"""`headcount align` on sound, from files to word times that plain transformers reads."""

import json
import re
from pathlib import Path
from shutil import copytree
from typing import Any

import pandas as pd
import pytest
import torch
from transformers import WhisperForConditionalGeneration

from headcount.wordtimes import WordTimes
from tests import speech
from tests.commanding import ROOT, headcount

pytestmark = pytest.mark.usefixtures("quick")


def test_a_folder_of_recordings_gives_heads_and_word_times(
    whisper: Path, sound: Path, tmp_path: Path
) -> None:
    whisper = Path(copytree(whisper, tmp_path / "whisper"))
    settings = json.loads((whisper / "generation_config.json").read_text())
    settings["_from_model_config"] = True  # transformers does not read such a file
    (whisper / "generation_config.json").write_text(json.dumps(settings))
    out, tuned = tmp_path / "out", tmp_path / "tuned"
    options = ("--heads", 2, "--write", tuned, "--out", out)
    status, output, errors = headcount("align", whisper, sound, *options)
    assert status == 0, errors
    found = WordTimes.read(out)
    assert len(found.rows) == 9 and len(found.chosen) == 2
    assert [row.word for row in found.words] == " ".join(speech.TEXTS).split()
    assert all(row.start <= row.end for row in found.words)
    assert f"{found.chosen[0]}, {found.chosen[1]} follow the sound" in output
    page = (out / "word_times.html").read_text(encoding="utf-8")
    assert page.count("<audio ") == 3 and "media-src data:" in page
    model: Any = WhisperForConditionalGeneration.from_pretrained(tuned)
    pairs = sorted([*map(int, head.split(".")[1:])] for head in found.chosen)
    assert model.generation_config.alignment_heads == pairs
    features = torch.zeros(1, 19, 2 * speech.POSITIONS)
    said = model.generate(features, return_token_timestamps=True, max_new_tokens=4)
    assert said["token_timestamps"].shape == said["sequences"].shape
    status, _, errors = headcount("align", whisper, sound, *options, "--overwrite")
    assert status == 2 and "Name another with --write." in errors


@pytest.mark.slow
def test_known_word_times_measure_lists(whisper: Path, sound: Path, tmp_path: Path) -> None:
    words, out = speech.words_ctm(tmp_path / "words.ctm"), tmp_path / "out"
    status, output, errors = headcount("align", whisper, sound, "--words", words, "--out", out)
    assert status == 0, errors
    lists = pd.read_parquet(out / "lists.parquet").set_index("name")
    assert lists.loc["uniform rate", "start_ms"] < 0.1, "they were made so"
    assert "against the known word times of 4 recordings" in output
    assert json.loads((out / "word_times.json").read_text())["timed"] == 4


@pytest.mark.parametrize(
    ("model", "options", "said"),
    [
        (
            "whisper",
            ("--gold", "g"),
            "for models that read pairs of texts, but {place} reads sound.",
        ),
        (
            "marian",
            ("--words", "w"),
            "for models that read sound, but {place} reads texts.",
        ),
        ("whisper", ("--heads", 10), "Expected at most 9 heads in the list"),
        ("whisper", ("--language", "de"), "which knows English only, got de"),
    ],
)
def test_what_does_not_fit_the_model_is_refused(
    model: str,
    options: tuple[object, ...],
    said: str,
    sound: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    place = request.getfixturevalue(model)
    status, _, errors = headcount("align", place, sound, *options, "--out", tmp_path / "out")
    assert status == 2 and said.format(place=place) in " ".join(errors.split())


@pytest.mark.slow
def test_the_guide_works_when_pasted(
    whisper: Path, sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commands one after the other, but those that make speech."""
    monkeypatch.chdir(tmp_path)
    copytree(whisper, "my-whisper")
    copytree(sound, "recordings")
    guide = (ROOT / "docs" / "howto" / "whisper.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", guide, re.DOTALL)
    joined = (block.replace("\\\n", " ") for block in blocks)
    lines = [line.split() for block in joined for line in block.splitlines()]
    commands = [words[1:] for words in lines if words[0] == "headcount" and "speech" not in words]
    of_20 = {"60": "16", "36": "8"}  # heads of the tiny model
    commands = [[of_20.get(word, word) for word in words] for words in commands]
    assert [command[0] for command in commands] == [
        "align",
        "align",
        "analyze",
        "importance",
        "evaluate",
        "curve",
        "prune",
    ]
    for command in commands:
        status, _, errors = headcount(*command)
        assert status == 0, errors
    words = pd.read_csv("timed/words.csv")
    assert words["word"].tolist() == " ".join(speech.TEXTS).split()
