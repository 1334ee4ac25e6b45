"""Progress in a log: few lines, with rate and time left."""

import pytest
from rich.console import Console

from headcount.cli import console


def test_lines_of_a_log(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(console, "monotonic", lambda: clock[0])
    lines = console._Lines(Console(stderr=True, highlight=False, soft_wrap=True))
    for done in range(20, 101):  # resumed at 20, one step a second
        lines.report("gates", done, 100)
        clock[0] += 1
    assert capsys.readouterr().err.splitlines() == [
        "gates  20/100",
        "gates  50/100  1.00/s  0:00:50 left",
        "gates  80/100  1.00/s  0:00:20 left",
        "gates  100/100  1.00/s",
    ]
    for done in (0, 50, 100):  # the stage comes again: of another method
        lines.report("gates", done, 100)
        clock[0] += 100
    assert capsys.readouterr().err.splitlines() == [
        "gates  0/100",
        "gates  50/100  0.50/s  0:01:40 left",
        "gates  100/100  0.50/s",
    ]
    lines.report("an unknown number", 3, 0)
    assert capsys.readouterr().err == "an unknown number  3\n"


def test_a_log_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with console.shown() as report:
        report("sweep", 0, 2)
        report("sweep", 2, 2)
    assert [line[:10] for line in capsys.readouterr().err.splitlines()] == [
        "sweep  0/2",
        "sweep  2/2",
    ]
