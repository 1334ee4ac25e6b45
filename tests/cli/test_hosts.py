"""Hosts without a shared disk: both are killed, or the disk of one is full."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_long_work import SMALL, same_results, until
from tests.commanding import SAMPLE, headcount
from tests.forked import ranks
from tests.hosts import two_hosts

ANALYZE = ("--limit", 20, *SMALL)


@pytest.fixture(scope="module")
def alone(bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of one process that was not killed."""
    out = tmp_path_factory.mktemp("alone") / "out"
    assert headcount("analyze", bert, SAMPLE, *ANALYZE, "--out", out)[0] == 0
    return out


@pytest.mark.slow
@pytest.mark.parametrize("resuming", [0, 1])
def test_a_run_of_two_hosts_resumes_on_one(
    resuming: int, bert: Path, alone: Path, tmp_path: Path
) -> None:
    """Both are killed in their work, and either goes on from what its own disk holds."""
    outs = [tmp_path / "0", tmp_path / "1"]
    analyze = ("analyze", bert, SAMPLE, *ANALYZE)
    with two_hosts() as hosts:
        both = ranks("headcount", *analyze, "--out", last=outs, hosts=hosts)
        until(lambda: [*(outs[resuming] / "state").glob("measuring-*")])
        for process in both:
            process.send_signal(signal.SIGKILL)
        for process in both:
            process.communicate(timeout=60)
    assert headcount(*analyze, "--out", outs[resuming], "--resume")[0] == 0
    same_results(alone, outs[resuming])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk on which the sums of two units have no room."""
    disk = tmp_path / "disk"
    disk.mkdir()
    made = ["mount", "-t", "tmpfs", "-o", "size=60k", "none", disk]
    if os.geteuid() or subprocess.run(made, check=False).returncode:
        pytest.skip("a disk can't be mounted here")
    yield disk
    subprocess.run(["umount", disk], check=True)


@pytest.mark.slow
def test_a_full_disk_of_one_process(bert: Path, small_disk: Path, tmp_path: Path) -> None:
    """It says so, and the other process ends, too."""
    analyze, outs = ("analyze", bert, SAMPLE, *ANALYZE), [tmp_path / "0", small_disk / "1"]
    first, second = ranks("headcount", *analyze, "--out", last=outs)
    (_, others), (_, errors) = first.communicate(), second.communicate()
    assert (first.returncode, second.returncode) == (2, 2)
    assert "No space left" in errors and "Traceback" not in errors + others
    assert "Another process of this run ended" in others
