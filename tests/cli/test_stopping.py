"""Signals end a command as Ctrl-C does; importing included."""

import os
import re
import signal
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import pytest

from headcount.commands.command_line import main
from headcount.commands.stopping import Stop, stoppable
from tests.commanding import headcount
from tests.forked import Forked


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_a_command_in_a_sentence(name: str, monkeypatch: pytest.MonkeyPatch):
    number = getattr(signal, name)

    def run(_: object) -> int:
        os.kill(os.getpid(), number)
        time.sleep(5)
        return 0

    monkeypatch.setattr("headcount.reporting.command.Doctor.run", run)
    status, _, errors = headcount("doctor", "none")
    assert status == 128 + number
    assert errors == "headcount: stopped; it keeps no state, so the same command begins again\n"


def test_what_is_resumed_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("headcount.importance.command.Importance.run", run)
    _, _, errors = headcount(
        "importance", "none", "--task", "causal-lm", "--data", "x", "--out", tmp_path
    )
    assert errors == "headcount: stopped; the same command with --resume goes on\n"


def test_an_interrupted_import_may_raise_another_error(monkeypatch: pytest.MonkeyPatch):
    def run(_: object) -> int:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        except KeyboardInterrupt as error:
            raise SystemError("returned a result with an exception set") from error
        return 0

    monkeypatch.setattr("headcount.reporting.command.Doctor.run", run)
    assert headcount("doctor", "none")[0] == 143


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stoppable() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
        assert stop.number is None and stop.status == 130
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_handlers_come_back():
    before = signal.getsignal(signal.SIGTERM)
    with stoppable():
        assert isinstance(getattr(signal.getsignal(signal.SIGTERM), "__self__", None), Stop)
    assert signal.getsignal(signal.SIGTERM) is before


OUTSIDE_OF_PYTHON = "ctypes.CDLL(None).pthread_mutex_lock(mutex)"
SAVING = "try:\n            time.sleep(60)\n        finally:\n            time.sleep(60)"


WORKING = {"computing": OUTSIDE_OF_PYTHON, "saving": SAVING}
CASES = [*product(WORKING, (signal.SIGTERM, signal.SIGHUP))]
GOES_ON = (
    "import ctypes, signal, sys, time\n"
    "from headcount.commands import main\n"
    "from headcount.reporting.command import Doctor\n"
    "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
    "mutex = ctypes.create_string_buffer(64)\n"
    "ctypes.CDLL(None).pthread_mutex_lock(mutex)\n"
    "class Slow(Doctor):\n"
    "    def run(self):\n"
    "        print('working', flush=True)\n"
    "        {}\n"
    "Doctor.run = Slow.run\n"
    "sys.exit(main(['doctor', 'none']))\n"
)
Ended = tuple[float, int | None, str]
"""Seconds from the signal to the end, exit status, and errors."""


@pytest.fixture(scope="module")
def ended() -> dict[tuple[str, signal.Signals], Ended]:
    """How commands end that go on after a signal: side by side, since each has eight seconds."""
    started = {each: Forked("-c", GOES_ON.format(WORKING[each[0]])) for each in CASES}
    try:
        for process in started.values():
            process.until("working")
        time.sleep(0.5)
        start = time.monotonic()
        for (_, number), process in started.items():
            process.send_signal(number)
        found = dict[tuple[str, signal.Signals], Ended]()
        for each, process in started.items():
            _, errors = process.communicate(timeout=12)
            found[each] = time.monotonic() - start, process.returncode, errors
        return found
    finally:
        for process in started.values():
            if process.returncode is None:
                process.send_signal(signal.SIGKILL)


@pytest.mark.parametrize(("working", "number"), CASES)
@pytest.mark.slow
def test_a_command_that_goes_on_is_ended_before_a_scheduler_kills_it(
    working: str, number: signal.Signals, ended: dict[tuple[str, signal.Signals], Ended]
) -> None:
    """It waits for a mutex, from which no signal wakes it; or its save takes a minute."""
    seconds, status, errors = ended[working, number]
    assert seconds < 10 and status == 128 + number
    assert errors.startswith("headcount: stopped, 8 s after the signal") and "Trace" not in errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_while_importing(number: signal.Signals):
    """`tyro` and `rich` take a moment; here they wait for the signal."""
    code = (
        "import signal, sys, time, types\n"
        "class Slow:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'tyro':\n"
        "            print('importing', flush=True)\n"
        "            time.sleep(60)\n"
        "sys.meta_path.insert(0, Slow())\n"
        "from headcount.__main__ import main\n"
        "main()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "doctor"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "importing\n"
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (128 + number, "headcount: stopped\n")


@pytest.mark.parametrize(
    ("arguments", "option"),
    [(["importance", "m", "--out", ""], "--out"), (["compact", "m", "--plan="], "--plan")],
)
def test_an_empty_argument_is_refused(
    arguments: list[str], option: str, capsys: pytest.CaptureFixture[str]
):
    assert main(arguments) == 2
    assert f"Expected a value for {option}, got an empty text" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "translation", "--set", "epochs=2", "--set", "swapped=0.1"],
        ["evaluate", "m", "--max-tokens=1", "--max_tokens", "2"],
    ],
)
def test_an_option_given_twice_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    """Otherwise the values of the first would be lost."""
    assert main(arguments) == 2
    assert re.search("Expected --[a-z-]+ once, got it 2 times. Give all", capsys.readouterr().err)
