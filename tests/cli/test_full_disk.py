"""A disk that is full, by a limit of the system on what a process may write."""

import sys
from pathlib import Path

import pytest

from headcount.cli.full_disk import full_disk
from tests.cli.conftest import SAMPLE, start
from tests.cli.test_compact import plan

LIMIT = ("prlimit", "--fsize=2000", sys.executable)


@pytest.mark.parametrize("command", ["compact", "analyze"])
def test_a_full_disk_is_told_in_a_sentence(command: str, bert: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    more = {
        "compact": (bert, "--plan", plan(tmp_path)),
        "analyze": (bert, SAMPLE, "--limit", 3),
    }[command]
    process = start(command, *more, "--out", out, launcher=LIMIT)
    _, errors = process.communicate()
    assert process.returncode == 2, errors
    assert "headcount: room on the disk was expected" in errors and "File too large" in errors
    assert "make some, then give the command again" in errors and "Traceback" not in errors
    if command == "compact":
        assert not out.exists() and not list(tmp_path.glob(".out*"))


def test_other_errors_are_not_taken_for_it() -> None:
    for words in ("checkpoint could not be written", ""):
        caused = RuntimeError(words)
        caused.__cause__ = OSError(28, "No space left on device", "model.bin")
        assert "no more ([Errno 28] No space left on device: 'model.bin')" in str(full_disk(caused))
    assert full_disk(OSError(13, "Permission denied")) is None
    assert full_disk(RuntimeError("out of memory")) is None
