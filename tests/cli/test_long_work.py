"""A killed run resumes and counts nothing twice; several processes give the sums of one."""

import json
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from tests.commanding import SAMPLE, headcount
from tests.forked import Forked, ranks

SMALL = ("--max-tokens", 64, "--pool", 20, "--save-every", 0)
"""Many small batches, the sums saved after each."""

SOME = (*SMALL, "--limit", 40)
"""A part of the sample, in enough batches to be killed between them."""

STATE = Path("state") / "measuring-0.safetensors"


def until(is_true: Callable[[], object], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.005)


def wait_for(path: Path, seconds: float = 120) -> None:
    until(path.exists, seconds)


def same_results(a: Path, b: Path, tolerance: float = 0) -> None:
    for name in ("heads", "relations", "offsets"):
        left, right = (pd.read_parquet(out / f"{name}.parquet") for out in (a, b))
        pd.testing.assert_frame_equal(left, right, rtol=tolerance, atol=tolerance)


@pytest.fixture(scope="module")
def dense(bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a process that was not killed."""
    out = tmp_path_factory.mktemp("whole") / "out"
    assert headcount("analyze", bert, SAMPLE, "--out", out, *SOME)[0] == 0
    return out


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_resume_counts_no_sentence_twice(
    bert: Path, dense: Path, tmp_path: Path, how: signal.Signals
) -> None:
    broken = tmp_path / "broken"
    # Reading and writing the sums after every batch leaves time to be killed in the middle
    process = Forked("headcount", "analyze", bert, SAMPLE, "--out", broken, *SOME)
    wait_for(broken / STATE)
    process.send_signal(how)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0 and not (broken / "heads.parquet").exists()
    if how == signal.SIGINT:
        assert process.returncode == 130 and "--resume" in errors
    status, _, errors = headcount("analyze", bert, SAMPLE, "--out", broken, *SOME, "--resume")
    assert status == 0, errors
    same_results(dense, broken)


@pytest.mark.slow
def test_resume_with_another_corpus_is_refused(bert: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert headcount("analyze", bert, SAMPLE, "--limit", 8, "--out", out)[0] == 0
    status, _, errors = headcount("analyze", bert, SAMPLE, "--limit", 9, "--out", out, "--resume")
    assert status == 2 and "n:8" in errors and "n:9" in errors


@pytest.mark.slow
def test_a_damaged_state_costs_a_unit_and_changes_no_number(bert: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    arguments = ("analyze", bert, SAMPLE, *SMALL, "--limit", 8, "--out")
    assert headcount(*arguments, whole)[0] == 0
    content = (whole / STATE).read_bytes()
    flipped = content[:-3] + bytes([content[-3] ^ 1]) + content[-2:]
    for name, damaged in (("cut", content[:-1]), ("flipped", flipped), ("empty", b"")):
        out = tmp_path / name
        shutil.copytree(whole, out)
        (out / STATE).write_bytes(damaged)
        with pytest.warns(UserWarning, match=r"can't be read: .* What it held is computed again"):
            status, _, errors = headcount(*arguments, out, "--resume")
        assert status == 0, errors
        same_results(whole, out)
        assert json.loads((out / "run.json").read_text())["timings"]["sentences_per_s"] > 0


@pytest.mark.slow
def test_any_number_of_processes_gives_the_same_bits(bert: Path, tmp_path: Path) -> None:
    """Two are killed in the middle, of which each has a disk of its own; three resume."""
    one, outs = tmp_path / "one", [tmp_path / "0", tmp_path / "1", tmp_path / "2"]
    arguments = ("analyze", bert, SAMPLE, *SMALL, "--limit", 30, "--null", "--out")
    assert headcount(*arguments, one)[0] == 0
    killed = ranks("headcount", *arguments, last=outs)
    for process, out in zip(killed, outs, strict=False):
        until(lambda out=out: [*(out / "state").glob("measuring-*.safetensors")])
        process.send_signal(signal.SIGKILL)
    for process in killed:
        process.communicate(timeout=60)
    held = [measured(out) for out in outs]
    assert held[0] and held[1] and held[0].isdisjoint(held[1]) and not held[2]
    for process in ranks("headcount", *arguments[:-1], "--resume", "--out", last=outs, number=3):
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
    assert set().union(*map(measured, outs)) == measured(one) and len(measured(one)) > 9
    same_results(one, outs[0])
    left, right = (pd.read_parquet(out / "null_heads.parquet") for out in (one, outs[0]))
    pd.testing.assert_frame_equal(left, right, rtol=0, atol=0)


def measured(out: Path) -> set[str]:
    """The files of the units that a run has measured."""
    return {path.name for path in (out / "state").glob("measuring-*.safetensors")}


@pytest.mark.slow
def test_two_processes_share_the_translations(marian: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    arguments = ("analyze", marian, SAMPLE, "--limit", 129, "--out")  # two chunks and a sentence
    assert headcount(*arguments, one)[0] == 0
    for process in ranks("headcount", *arguments, two):
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
    assert (one / "targets.txt").read_bytes() == (two / "targets.txt").read_bytes()
    kept = [json.loads(file.read_text())["done"] for file in (two / "state").glob("targets*.json")]
    assert sorted(name for each in kept for name in each) == ["0", "1", "2"]
    same_results(one, two)
