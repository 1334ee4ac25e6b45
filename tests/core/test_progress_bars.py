"""Progress bars in a notebook: one for each stage, redrawn in place, not too often."""

import sys
from typing import Any

import IPython.display
import pytest

from headcount.core import InputError, ProgressBars, progress


class Cell:
    """What a notebook's cell shows: the HTML of each display, as it changed."""

    def __init__(self) -> None:
        self.bars: list[list[str]] = []

    def display(self, shown: Any, display_id: bool) -> "Handle":
        assert display_id
        self.bars.append([shown.data])
        return Handle(self.bars[-1])


class Handle:
    def __init__(self, drawn: list[str]) -> None:
        self.drawn = drawn

    def update(self, shown: Any) -> None:
        self.drawn.append(shown.data)


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    found = Cell()
    monkeypatch.setattr(IPython.display, "display", found.display)
    return found


def test_a_bar_for_each_stage(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.1, 0.3, 0.35, 7.0, 8.0, 9.0])
    monkeypatch.setattr(progress, "monotonic", lambda: next(clock))
    report = ProgressBars()
    for done in (1, 2, 3, 2000):
        report("a <b>", done, 2000)
    report("translating", 5, 0)
    report("a <b>", 1, 2000)
    report("a <b>", 3, 2000)
    first, second = cell.bars
    name = "a &lt;b&gt;"
    element = f'<progress aria-label="{name}" value="%d" max="2000"></progress>'
    bar = f"<div>{name} {element} %s, %s s</div>"
    assert first == [
        bar % (1, "1/2,000", "0"),
        bar % (3, "3/2,000", "0"),
        bar % (2000, "2,000/2,000", "0"),
        bar % (1, "1/2,000", "0"),
        bar % (3, "3/2,000", "1"),
    ]
    assert second == [
        '<div>translating <progress aria-label="translating"></progress> 5, 0 s</div>'
    ]


def test_without_ipython(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython.display", None)
    with pytest.raises(InputError, match="Expected a notebook to draw bars in"):
        ProgressBars()
