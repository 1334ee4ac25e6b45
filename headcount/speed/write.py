"""Write a speed comparison: all numbers, tables and a figure."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headcount.files import nulls_for_nan, write_json, write_text
from headcount.reports.figure_style import FORMATS, save, styled
from headcount.speed.comparison import Speed
from headcount.speed.document import document
from headcount.speed.figure import speed_figure


def write_speed(
    speed: Speed, names: tuple[str, str], out: Path, about: Mapping[str, Any] | None = None
) -> None:
    """Write `speed.json`, `speed.md` and `speed.svg`, `.png`, `.pdf`.

    Args:
        speed: The comparison.
        names: Names of the dense and the pruned model.
        out: Folder to write into; it is created.
        about: Further fields of the record: arguments, signatures.
    """
    out.mkdir(parents=True, exist_ok=True)
    with styled():
        figure = speed_figure(speed)
        for kind in FORMATS:
            save(figure, out / f"speed.{kind}")
    write_text(out / "speed.md", document(speed, names) + "\n![speed](speed.svg)\n")
    write_json(out / "speed.json", nulls_for_nan(record(speed) | dict(about or {})))


def record(speed: Speed) -> dict[str, Any]:
    """All numbers as JSON values."""
    return {
        "dense": asdict(speed.dense),
        "pruned": asdict(speed.pruned),
        "cases": [each.record() for each in speed.timings],
        "left_out": list(speed.left_out),
        "warnings": speed.warnings(),
        "machine": dict(speed.machine),
    }
