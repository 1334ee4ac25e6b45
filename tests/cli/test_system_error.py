"""A disk that is full, by a limit of the system on what a process may write; bad paths."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertModel

from headcount.commands.stopping import advice, full_disk
from headcount.core import read_arrays
from tests.commanding import SAMPLE, headcount
from tests.compaction.plans import plan
from tests.forked import Forked


@pytest.mark.slow
@pytest.mark.parametrize("command", ["compact", "analyze"])
def test_a_full_disk_is_reported_in_a_sentence(command: str, bert: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    more = {
        "compact": (bert, "--plan", plan(tmp_path)),
        "analyze": (bert, SAMPLE, "--limit", 3),
    }[command]
    process = Forked("headcount", command, *more, "--out", out, file_size=2000)
    _, errors = process.communicate()
    assert process.returncode == 2, errors
    assert "headcount: The disk is full" in errors and "File too large" in errors
    assert "then run the command again" in errors and "Traceback" not in errors
    if command == "compact":
        assert not out.exists() and not list(tmp_path.glob(".out*"))


def test_other_errors_are_not_taken_for_it() -> None:
    for words in ("checkpoint could not be written", ""):
        caused = RuntimeError(words)
        caused.__cause__ = OSError(28, "No space left on device", "model.bin")
        assert "full ([Errno 28] No space left on device: 'model.bin')" in str(full_disk(caused))
    assert full_disk(OSError(13, "Permission denied")) is None
    assert "/out can't be used (Device or resource busy)" in str(
        advice(OSError(16, os.strerror(16), "/out"))
    )
    assert advice(OSError(13, "Permission denied")) is None  # of no path
    assert advice(FileNotFoundError(2, "No such file or directory", "ours.json")) is None
    assert advice(RuntimeError("out of memory")) is None
    full = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nmore")
    reported = advice(full, {"max_tokens"})
    assert (
        reported is not None and "(CUDA out of memory. Tried to allocate 2 GiB). Lower" in reported
    )


@pytest.mark.slow
@pytest.mark.parametrize("allocate", [torch.empty, np.empty, bytearray])
def test_memory_of_the_machine_that_is_full_is_reported_in_a_sentence(
    allocate: Callable[[int], object], bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for one line of 200,000 words; what was measured before is kept."""
    asked, batches = BertModel.forward, list[int]()

    def forward(self: BertModel, *arguments: Any, **options: Any) -> object:
        batches.append(1)
        if len(batches) == 18:
            allocate(1 << 56)
        return asked(self, *arguments, **options)

    more = ("--max-tokens", 64, "--limit", 12, "--no-induction", "--out", tmp_path / "out")
    monkeypatch.setattr(BertModel, "forward", forward)
    status, _, errors = headcount("analyze", bert, SAMPLE, *more)
    assert status == 2 and "headcount: The device is out of memory (" in errors, errors
    assert "Lower --max-tokens" in errors and "--resume" in errors
    kept = [*(tmp_path / "out" / "state").glob("measuring-*")]
    assert sum(int(read_arrays(file, "sums")[1]["batches"]) for file in kept) > 0


def test_a_message_of_many_characters_is_shortened(bert: Path) -> None:
    status, _, errors = headcount("z" * 5000)
    assert status == 2 and len(errors) < 1550 and " ... " in errors
    status, _, errors = headcount("compact", bert, "--plan", "x" * 5000, "--out", "none")
    assert status == 2 and len(errors) < 1550 and errors.endswith("permissions.\n")


def test_an_argument_of_many_characters_is_shortened(bert: Path) -> None:
    given = ("--task", "x" * 5000, "--data", "a", "--out", "none")
    status, _, errors = headcount("importance", bert, *given)
    assert status == 2 and len(errors) < 2000 and "Expected a task" in errors, errors


@pytest.mark.slow
def test_an_unusable_path_is_reported_in_a_sentence(bert: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for command in (("compact", bert, "--plan", plan(tmp_path)), ("analyze", bert, SAMPLE)):
        status, _, errors = headcount(*command, "--out", tmp_path / "file" / "out")
        assert status == 2, errors
        assert "can't be used (" in errors
        assert f"{tmp_path / 'file'}" in errors and ("Not a dir" in errors or "exists" in errors)
