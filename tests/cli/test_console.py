"""Progress in a log: few lines, with rate and time left; texts that a terminal would obey."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from rich.console import Console
from rich.table import Table

from headcount.commands import console, main
from headcount.core import Code, Document, Heading, Text


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
        *(
            f"gates  {done}/100  1.00/s  {timedelta(seconds=100 - done)} left"
            for done in range(30, 100, 10)
        ),
        "gates  100/100  1.00/s",
    ]
    for done in range(0, 1001):  # slowly: after 30 seconds, not only after a tenth
        lines.report("slow", done, 1000)
        clock[0] += 1
    slow = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in slow[:4]] == ["0/1,000", "30/1,000", "60/1,000", "90/1,000"]
    for done in range(101):  # fast: tenths are less than two seconds apart
        lines.report("fast", done, 100)
        clock[0] += 1 / 16
    fast = [line.split()[1] for line in capsys.readouterr().err.splitlines()]
    assert fast == ["0/100", "32/100", "64/100", "96/100", "100/100"]
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


def test_a_log_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with console.shown() as report:
        report("sweep", 0, 2)
        report("sweep", 2, 2)
    assert [line[:10] for line in capsys.readouterr().err.splitlines()] == [
        "sweep  0/2",
        "sweep  2/2",
    ]


HOSTILE = "a\x1b[2Jb\x1b]0;title\x07c\rd\x9b31me\x7ff\u202eg\x00h"
"""Clear the screen, set the title, go to the start of the line, colour, delete, write backwards."""


def _table() -> Table:
    table = Table(HOSTILE, title=HOSTILE)
    table.add_row(HOSTILE)
    return table


@pytest.mark.parametrize("stderr", [False, True])
@pytest.mark.parametrize(
    "show",
    [
        lambda where: where.print(HOSTILE, style="yellow"),
        lambda where: where.print(_table()),
        lambda where: where.print("one", HOSTILE, HOSTILE, sep="\n"),
        lambda where: console.print_warnings([HOSTILE], where),
        lambda where: console.print_document(
            Document("", (Heading(HOSTILE), Text(HOSTILE), Code(HOSTILE))), where
        ),
    ],
)
def test_no_text_reaches_the_terminal_as_a_command(
    show: Callable[[Console], None], stderr: bool, capsys: pytest.CaptureFixture[str]
):
    show(console.plain_console(soft_wrap=False, stderr=stderr))
    shown = "".join(capsys.readouterr())
    assert "\u241b" in shown, "it is made visible"
    assert not set(shown) & set("\x1b\x07\r\x9b\x7f\u202e\x00")


def test_colours_of_our_own_stay(monkeypatch: pytest.MonkeyPatch):
    where = console.plain_console()
    monkeypatch.setattr(where, "_color_system", 1)
    monkeypatch.setattr(where, "_force_terminal", True)
    with where.capture() as captured:
        where.print("warning: \x1b[2J", style="yellow")
    assert "\x1b[33mwarning: \u241b[2J\x1b[0m" in captured.get()


@pytest.mark.parametrize("quiet", [True, False])
def test_quiet_shows_no_progress(quiet: bool, capsys: pytest.CaptureFixture[str]) -> None:
    from headcount.papers.train_command import training_shown
    from headcount.training import TrainingProgress

    moment = TrainingProgress(1, 2, 0.5, 100.0, 9.0, {"loss": 1.0})
    with console.quietly(quiet), console.shown() as report, training_shown() as tell:
        report("measuring", 0, 2)
        tell(moment)
    assert (capsys.readouterr().err == "") == quiet


@pytest.mark.parametrize(
    "arguments",
    [
        ("analyze", "model", "corpus.txt", "--out", "out", f"--{HOSTILE}"),
        ("analyze", "model", "corpus.txt", "--out", "out", "--limit", HOSTILE),
        ("analyze", "model", HOSTILE, "--out", "out"),
        (HOSTILE,),
    ],
)
def test_arguments_never_reach_the_terminal_as_commands(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
):
    try:
        status = main([*arguments])
    except SystemExit as error:
        status = error.code
    assert status == 2
    shown = "".join(capsys.readouterr())
    assert "[2Jb" in shown, "it is named"
    assert not set(shown) & set("\x1b\x07\r\x9b\x7f\u202e\x00")
