"""A Whisper is scored, ranked and pruned on a folder of recordings, by commands."""

import json
from pathlib import Path

import pytest

from tests import speech
from tests.commanding import headcount


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return speech.whisper(tmp_path_factory.mktemp("whisper"))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return speech.recordings(tmp_path_factory.mktemp("sound"))


@pytest.mark.slow
def test_heads_are_scored_and_pruned(whisper: Path, sound: Path, tmp_path: Path) -> None:
    task = ("--task", "transcription", "--data", sound)
    scored = tmp_path / "scored"
    status, output, errors = headcount("evaluate", whisper, *task, "--out", scored)
    assert status == 0, errors
    written = (scored / "transcripts.txt").read_text(encoding="utf-8").splitlines()
    assert len(written) == json.loads((scored / "evaluation.json").read_text())["examples"]
    assert "wer " in output and "|metric:wer|normalizer:basic|" in output
    out = tmp_path / "worth"
    status, _, errors = headcount("importance", whisper, *task, "--methods", "fisher", "--out", out)
    assert status == 0, errors
    assert json.loads((out / "importance.json").read_text())["task"] == "transcription"
    out, chosen = tmp_path / "small", ("--dev", sound, "--keep", 8, "--method", "fisher")
    status, output, errors = headcount("prune", whisper, *task, *chosen, "--out", out)
    assert status == 0, errors
    assert "Checked: certificate: gated = compact = reloaded" in output
    record = json.loads((out / "prune.json").read_text())
    assert record["speed"]["cases"][0]["mode"] == "forward" and record["ceiling"]["value"] > 1
    status, output, errors = headcount("speed", whisper, out, "--rounds", 2, "--length", 8)
    assert status == 0, errors
    assert "forward" in output and "generate" in output


def test_bad_arguments(whisper: Path, sound: Path, tmp_path: Path) -> None:
    task = ("--task", "transcription", "--data", sound)
    status, _, errors = headcount("evaluate", whisper, *task, "--language", "de")
    assert status == 2 and "knows English only, got de" in " ".join(errors.split())
    status, _, errors = headcount("evaluate", whisper, "--task", "choice", "--data", tmp_path)
    assert status == 2 and "got a folder" in " ".join(errors.split())
    status, _, errors = headcount("evaluate", whisper, *task[:2], "--data", tmp_path)
    assert status == 2 and "Expected recordings in" in " ".join(errors.split())
