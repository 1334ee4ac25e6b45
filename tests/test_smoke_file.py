"""The workflow for Windows and macOS: its commands exist, and run in a folder with odd letters."""

import shlex
from pathlib import Path

import pytest
import yaml

from headcount.commands.command_line import parse
from tests.commanding import headcount

ROOT = Path(__file__).parents[1]
JOB = yaml.safe_load((ROOT / ".github" / "workflows" / "smoke.yml").read_text(encoding="utf-8"))[
    "jobs"
]["smoke"]
LINES = [
    line.strip()
    for step in JOB["steps"]
    for line in step.get("run", "").split("&&")
    if line.strip().startswith("headcount ")
]


def test_its_commands_are_those_of_today() -> None:
    assert len(LINES) > 6
    for line in LINES:
        words = shlex.split(line.replace("$OUT", JOB["env"]["OUT"]))[1:]
        if words != ["--version"]:
            assert parse(words), line


@pytest.mark.slow
def test_its_commands_run_in_a_folder_with_odd_letters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for line in LINES[1:]:
        status, _, errors = headcount(*shlex.split(line.replace("$OUT", JOB["env"]["OUT"]))[1:])
        assert status == 0, f"{line}: {errors}"
    assert (tmp_path / JOB["env"]["OUT"] / "paper" / "methods.tex").exists()
    assert (tmp_path / "atlas" / "index.html").exists()
