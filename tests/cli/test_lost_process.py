"""A process of a run that outlives another one ends with a sentence."""

import signal
from datetime import timedelta
from pathlib import Path

import pytest
from torch import distributed

from headcount.commands.stopping import advice
from tests.cli.test_long_work import SOME, wait_for
from tests.commanding import DATA, SAMPLE
from tests.forked import ranks

WAIT = timedelta(seconds=1)
QUICK = """
import sys
from headcount.commands import main
from headcount.core import distributed

distributed.SILENT = 5.0
sys.exit(main(sys.argv[1:]))
"""
"""A command that does not wait as long for a sign of life."""
TRAINING = ("--set", "pieces=150", "batch_tokens=300", "epochs=3", "dropout=0")


@pytest.mark.slow
@pytest.mark.parametrize(("command", "killed"), [("analyze", 1), ("train", 0)])
def test_the_process_that_is_left_ends_with_a_sentence(
    command: str, killed: int, bert: Path, tmp_path: Path
) -> None:
    """Two processes are connected by gloo; one is killed in the middle of its work."""
    out = tmp_path / "out"
    if command == "analyze":
        begun = out / "state" / "measuring-0.safetensors"
        both = ranks("-c", QUICK, "analyze", bert, SAMPLE, *SOME, "--out", out)
    else:
        begun = out / "checkpoints" / "checkpoint-4" / "whole"
        options = ("--recipe", "tiny", "--save-every", 4, *TRAINING, "--out", out)
        both = ranks("headcount", "train", "translation", *DATA, *options)
    wait_for(begun)
    both[killed].send_signal(signal.SIGKILL)
    _, errors = both[1 - killed].communicate(timeout=200)
    assert both[1 - killed].returncode == 2, errors
    assert "headcount: Another process of this run ended (" in errors
    assert "Traceback" not in errors


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_that_never_comes(rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError) as caught:
        distributed.init_process_group(
            "gloo",
            init_method="tcp://127.0.0.1:0" if rank == 0 else "tcp://127.0.0.1:9",
            rank=rank,
            world_size=2,
            timeout=WAIT,
        )
    reported = advice(caught.value)
    assert reported is not None and "did not come or did not answer (" in reported
    monkeypatch.delenv("WORLD_SIZE")
    assert advice(caught.value) is None


UNMET = """
import os, sys, time
from headcount.commands import main
from headcount.core import distributed

distributed.MEETING = 2.0
rank, port = int(os.environ["RANK"]), int(os.environ["MASTER_PORT"])
if rank == int(sys.argv[1]):
    if sys.argv[2] == "after the store":
        from torch.distributed import TCPStore
        store = TCPStore("127.0.0.1", port, 2, rank == 0, wait_for_workers=False)
        time.sleep(1)
    os._exit(1)
start = time.monotonic()
status = main(["analyze", *sys.argv[3:]])
print(status, time.monotonic() - start < 20)
"""


@pytest.mark.slow
@pytest.mark.parametrize("ended", [0, 1])
@pytest.mark.parametrize("when", ["at once", "after the store"])
def test_a_process_that_ends_before_all_have_met(
    ended: int, when: str, bert: Path, tmp_path: Path
) -> None:
    """The others don't wait half an hour, as torch would."""
    both = ranks("-c", UNMET, ended, when, bert, SAMPLE, "--out", tmp_path / "out")
    output, errors = both[1 - ended].communicate(timeout=100)
    assert output == "2 True\n", errors
    assert "headcount: Another process of this run" in errors and "Traceback" not in errors


LATER = """
import time
from headcount.core import distributed, processes
from headcount.core.distributed import meet, told_by

distributed.MEETING = 2.0
meet()
time.sleep(2 * distributed.MEETING * processes().process_index)
print(told_by(1, lambda: "late"))
"""


@pytest.mark.slow
def test_a_process_may_be_late_once_all_have_met() -> None:
    for process in ranks("-c", LATER):
        output, errors = process.communicate(timeout=100)
        assert output == "late\n", errors
