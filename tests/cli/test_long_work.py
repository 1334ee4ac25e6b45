"""A killed run resumes and counts nothing twice; several processes give the sums of one."""

import json
import shutil
import signal
import time
from pathlib import Path

import pandas as pd
import pytest
from safetensors.torch import load_file

from tests.cli.conftest import SAMPLE, headcount
from tests.forked import Forked, ranks

SMALL = ("--max-tokens", 64, "--pool", 20, "--save-every", 0)
"""Many small batches, the sums saved after each."""

SOME = (*SMALL, "--limit", 40)
"""A part of the sample, in enough batches to be killed between them."""

STATE = Path("state") / "measuring-0.safetensors"


def wait_for(path: Path, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not come"
        time.sleep(0.005)


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


def test_resume_with_another_corpus_is_refused(bert: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert headcount("analyze", bert, SAMPLE, "--limit", 8, "--out", out)[0] == 0
    status, _, errors = headcount("analyze", bert, SAMPLE, "--limit", 9, "--out", out, "--resume")
    assert status == 2 and "n:8" in errors and "n:9" in errors
    (out / STATE).write_bytes(b"torn")
    status, _, errors = headcount("analyze", bert, SAMPLE, "--limit", 8, "--out", out, "--resume")
    assert status == 2 and "can't be read" in errors


def test_a_damaged_state_costs_a_batch_and_changes_no_number(bert: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    arguments = ("analyze", bert, SAMPLE, *SMALL, "--limit", 8, "--out")
    assert headcount(*arguments, whole)[0] == 0
    content = (whole / STATE).read_bytes()
    flipped = content[:-3] + bytes([content[-3] ^ 1]) + content[-2:]
    for name, damaged in (("cut", content[:-1]), ("flipped", flipped), ("empty", b"")):
        out = tmp_path / name
        shutil.copytree(whole, out)
        (out / STATE).write_bytes(damaged)
        with pytest.warns(
            UserWarning, match=r"computed again: it holds \d+ batch(es)?, \d sentences"
        ):
            status, _, errors = headcount(*arguments, out, "--resume")
        assert status == 0, errors
        same_results(whole, out)
        for state in (out / "state").glob("measuring-0*"):
            state.write_bytes(damaged)
        status, _, errors = headcount(*arguments, out, "--resume")
        assert status == 2 and "can't be read" in errors and "--overwrite" in errors
        assert headcount(*arguments, out, "--overwrite")[0] == 0
        same_results(whole, out)


@pytest.mark.slow
def test_two_processes_give_the_sums_of_one(bert: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    arguments = ("analyze", bert, SAMPLE, *SMALL, "--limit", 30, "--null", "--out")
    assert headcount(*arguments, one)[0] == 0
    for process in ranks("headcount", *arguments, two):
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
    shares = [load_file(two / "state" / f"measuring-{rank}.safetensors") for rank in range(2)]
    name = "Confidence/encoder.self/0/queries"
    every = load_file(one / STATE)[name]
    assert 0 < shares[0][name] < every and shares[0][name] + shares[1][name] == every
    same_results(one, two, 1e-9)


@pytest.mark.slow
def test_two_processes_share_the_translations(marian: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    arguments = ("analyze", marian, SAMPLE, "--limit", 129, "--out")  # two chunks and a sentence
    assert headcount(*arguments, one)[0] == 0
    for process in ranks("headcount", *arguments, two):
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
    assert (one / "targets.txt").read_bytes() == (two / "targets.txt").read_bytes()
    kept = [json.loads((two / f"state/targets-{rank}.json").read_text()) for rank in range(2)]
    assert [sorted(each["done"]) for each in kept] == [["0", "2"], ["1"]]
    left, right = (pd.read_parquet(out / "heads.parquet") for out in (one, two))
    pd.testing.assert_frame_equal(left, right, rtol=1e-6, atol=1e-9)
