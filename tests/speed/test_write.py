"""Written files: all numbers as JSON, tables, and a figure with every panel."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from headcount.core import styled
from headcount.speed import Case, Cost, Machine, Size, Speed, Timing, write_speed
from headcount.speed.document import speed_document, speed_figure

MACHINE = Machine(
    device="cpu",
    name="a processor",
    cores=4,
    threads=2,
    load=0.1,
    dtype="float32",
    attention="sdpa",
    versions={"torch": "2", "transformers": "5"},
)


def speed() -> Speed:
    timings = [
        Timing(
            Case(mode, batch, length, 8 if mode == "generate" else 0),
            Cost(0.3, float("nan"), 140),
            Cost(0.25, 1.5e6, 100),
            np.array([(3.0, 2.5, 3.0), (3.1, 2.5, 3.0), (3.0, 2.5, 3.1)]),
        )
        for mode, lengths in (("forward", (16, 128)), ("generate", (16,)))
        for length in lengths
        for batch in (1, 4)
    ]
    sizes = Size(2_500_000, 10_000_000, None), Size(2_000_000, 8_000_000, 8_100_000)
    return Speed(*sizes, timings, MACHINE, ["forward at 512 tokens was left out"])


def test_tables() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in speed_document(speed(), ("base", "small")).markdown().splitlines()
    ]
    assert ["size", "base", "small"] in rows
    assert ["parameters", "2,500,000", "2,000,000"] in rows
    assert ["weights on disk, MB", "–", "8.10"] in rows
    gain = ["generate", "4", "16 + 8", "1.21 (1.18–1.24)", "1.00 (0.92–1.08)", "1.40", "53"]
    assert gain in rows
    assert ["forward", "4", "128", "300 / 250", "13.3 / 16", "1,707 / 2,048", "– / 1.5"] in rows
    assert ["Warning: forward at 512 tokens was left out."] in rows
    assert any(row[0].startswith("a processor, cpu, 2 threads, float32") for row in rows)


def test_a_panel_for_each_mode_and_length() -> None:
    with styled():
        figure = speed_figure(speed())
    shown = [axes.get_title(loc="left") for axes in figure.axes if axes.get_visible()]
    assert shown == ["forward, 16 tokens", "forward, 128 tokens", "generate, 16 + 8 tokens"]
    ticks = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert ticks == ["1", "4"]


@pytest.mark.slow
def test_files(tmp_path: Path) -> None:
    write_speed(speed(), ("base", "small"), tmp_path / "out", {"arguments": {"rounds": 3}})
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert files == {"speed.json", "speed.md", "speed.svg", "speed.png", "speed.pdf"}
    found = json.loads((tmp_path / "out" / "speed.json").read_text())
    assert found["arguments"] == {"rounds": 3} and len(found["cases"]) == 6
    assert found["cases"][0]["dense"]["peak_bytes"] is None
    assert found["machine"] == asdict(MACHINE) and found["left_out"] == speed().left_out
    assert (tmp_path / "out" / "speed.md").read_text().endswith("![speed](speed.svg)\n")
