"""Where a file system can't lock, a file stands in."""

import errno
import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from socket import gethostname

import pytest

from headcount.core import InputError, entries, hold, locked, release, taking_over
from headcount.core import locking as lock_files
from headcount.core.files import LOCK

ELSEWHERE = {"host": "elsewhere", "process": 7}


@pytest.fixture(autouse=True, params=[errno.ENOLCK, errno.ENOTSUP, errno.EBADF])
def no_locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A file system that can't lock, as the system's call says it."""

    def flock(*_: object) -> None:
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", flock)
    yield
    release()


def left(folder: Path, age: float, text: str = json.dumps(ELSEWHERE)) -> Path:
    """The file of another process, last touched some seconds ago."""
    file = folder / LOCK
    file.write_text(text)
    touched = time.time() - age
    os.utime(file, (touched, touched))
    return file


def test_a_folder_is_held_and_released(tmp_path: Path):
    hold(tmp_path)
    hold(tmp_path)  # by the same process
    assert json.loads((tmp_path / LOCK).read_text()) == {
        "host": gethostname(),
        "process": os.getpid(),
    }
    assert entries(tmp_path) == []
    release()
    assert not (tmp_path / LOCK).exists()


def test_a_folder_is_locked_once_also_while_it_is_moved(tmp_path: Path):
    (tmp_path / "new").mkdir()
    with locked(tmp_path / "new"):
        with pytest.raises(InputError, match="Another process is writing out. Wait until it ends"):
            with locked(tmp_path / "new", Path("out")):
                pass
        (tmp_path / "new").rename(tmp_path / "out")
    assert [path.name for path in tmp_path.rglob("*")] == ["out"]


@pytest.mark.parametrize("takes", [False, True])
def test_a_living_process_of_another_machine_is_respected(takes: bool, tmp_path: Path):
    file = left(tmp_path, age=lock_files.STALE / 2)
    with pytest.raises(InputError, match=r"Another process \(process 7 on elsewhere\) is writing"):
        with taking_over(takes):
            hold(tmp_path)
    assert json.loads(file.read_text()) == ELSEWHERE


def test_a_heartbeat_moves_by_the_clock_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lock_files, "HEARTBEAT", 0.02)
    hold(tmp_path)
    file = tmp_path / LOCK
    os.utime(file, (0, 0))
    limit = time.monotonic() + 20
    while file.stat().st_mtime == 0 and time.monotonic() < limit:
        time.sleep(0.01)
    assert abs(file.stat().st_mtime - time.time()) < 20
    file.write_text(json.dumps(ELSEWHERE))  # another process has taken it over
    release()
    assert json.loads(file.read_text()) == ELSEWHERE


@pytest.mark.parametrize("text", [json.dumps(ELSEWHERE), "", "[1]", '{"host": "elsewhere"}'])
def test_a_stale_one_is_named_and_taken_over(text: str, tmp_path: Path):
    file = left(tmp_path, lock_files.STALE + 60, text)
    who = "process 7 on elsewhere" if text == json.dumps(ELSEWHERE) else "a process"
    named = rf"but {who} was writing it, and has not touched .*{LOCK} for 18\d seconds"
    with pytest.raises(InputError, match=f"{named}. If that process has ended, add --take-over"):
        hold(tmp_path)
    assert file.read_text() == text
    with taking_over():
        hold(tmp_path)
    assert json.loads(file.read_text())["process"] == os.getpid()
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]


def test_bytes_that_are_no_text_are_taken_over(tmp_path: Path):
    left(tmp_path, lock_files.STALE + 60).write_bytes(b"\xff")
    os.utime(tmp_path / LOCK, (0, 0))
    with taking_over():
        hold(tmp_path)
    assert json.loads((tmp_path / LOCK).read_text())["process"] == os.getpid()


def test_of_two_that_take_over_at_once_the_second_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file, move = left(tmp_path, lock_files.STALE + 60), os.replace
    first = json.dumps({"host": "third", "process": 8})

    def late(source: Path, target: Path) -> None:
        monkeypatch.setattr(os, "replace", move)
        file.write_text(first)
        move(source, target)

    monkeypatch.setattr(os, "replace", late)
    with taking_over(), pytest.raises(InputError, match=r"\(process 8 on third\) is writing"):
        hold(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [LOCK] and file.read_text() == first


RUN = """
import errno, fcntl, os, sys, time
def flock(*_): raise OSError(errno.ENOLCK, "No locks available")
fcntl.flock = flock
from pathlib import Path
from headcount.core import hold, InputError, taking_over
try:
    with taking_over("--take-over" in sys.argv):
        hold(Path(sys.argv[1]))
except InputError as error:
    sys.exit(str(error))
print("held", flush=True)
if "--stay" in sys.argv:
    time.sleep(600)
"""


def started(*arguments: object) -> "subprocess.Popen[str]":
    words = [sys.executable, "-c", RUN, *map(str, arguments)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_a_killed_process_leaves_a_stale_file(tmp_path: Path):
    """Also a young one: on the same machine one sees that it has ended."""
    first = started(tmp_path, "--stay")
    assert first.stdout is not None and first.stdout.readline() == "held\n"
    living = started(tmp_path, "--take-over").communicate()
    assert (
        f"Another process (process {first.pid} on {gethostname()}) is" in living[1]
        and not living[0]
    )
    first.kill()
    first.communicate()
    assert (tmp_path / LOCK).exists()
    refused = started(tmp_path).communicate()
    assert f"but process {first.pid} on {gethostname()} was writing it" in refused[1]
    assert started(tmp_path, "--take-over").communicate()[0] == "held\n"
    assert not (tmp_path / LOCK).exists()  # given back at the end of the process
