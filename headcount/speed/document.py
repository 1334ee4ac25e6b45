"""What a speed comparison shows, and its files."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headcount.core import (
    ACCENT,
    FORMATS,
    INK,
    LINE,
    MUTED,
    Chart,
    Document,
    Table,
    Text,
    Warned,
    amount,
    grid_of,
)
from headcount.numbers import percent
from headcount.results import cache_rows, write_sealed
from headcount.speed.comparison import Case, Speed, Timing
from headcount.speed.costs import Size

_CASE = ("mode", "batch", "tokens")


def speed_document(speed: Speed, names: tuple[str, str]) -> Document:
    """What a comparison shows: sizes, speedups, costs, warnings and the machine.

    Args:
        speed: the comparison.
        names: names of the dense and the pruned model.
    """
    machine = speed.machine
    gains = (*_CASE, "times as fast (95 %)", "dense against itself", "ceiling", "% of its gain")
    costs = (*_CASE, "latency, ms", "examples/s", "tokens/s", "peak memory, MB")
    return Document(
        f"Speed of {names[1]} beside {names[0]}",
        (
            Table.of(("size", *names), size_rows(speed.dense, speed.pruned), "Sizes"),
            Text(
                "Mean ratios of times within rounds, in which the two models took turns. The "
                "ceiling is the ratio of their FLOPs."
            ),
            Table.of(gains, map(_gain_cells, speed.timings), "Speedups and their ceilings"),
            Text(
                "Medians over rounds: dense / pruned model. Memory is the peak of a call beyond "
                "weights and inputs."
            ),
            Table.of(costs, map(_cost_cells, speed.timings), "Costs of both models"),
            *map(Warned, speed.warnings()),
            Text(
                f"{machine.name}, {machine.device}, {amount(machine.threads, 'thread')}, "
                f"{machine.dtype}, attention {machine.attention}, load before the run "
                f"{machine.load}; torch {machine.versions['torch']}, transformers "
                f"{machine.versions['transformers']}."
            ),
            Chart("speed", "Speedups by mode, length and batch", lambda: speed_figure(speed)),
        ),
    )


def _gain_cells(timing: Timing) -> list[str]:
    """One row of the table of speedups."""
    return [
        *_case_cells(timing.case),
        str(timing.speedup),
        str(timing.noise),
        f"{timing.ceiling:.2f}",
        percent(timing.reached, 0, ""),
    ]


def _cost_cells(timing: Timing) -> list[str]:
    """One row of the table of costs."""
    records = [each.record(timing.case) for each in (timing.dense, timing.pruned)]
    scales = {"latency_s": 1e3, "examples_per_s": 1, "tokens_per_s": 1, "peak_bytes": 1e-6}
    pairs = ([each[name] * scale for each in records] for name, scale in scales.items())
    return [*_case_cells(timing.case), *(" / ".join(map(_number, pair)) for pair in pairs)]


def _case_cells(case: Case) -> list[str]:
    added = f" + {case.new_tokens}" if case.new_tokens else ""
    return [case.mode, str(case.batch), f"{case.length}{added}"]


def size_rows(dense: Size, pruned: Size) -> list[list[str]]:
    """Rows of the table of sizes."""
    return [
        ["parameters", *(f"{each.parameters:,}" for each in (dense, pruned))],
        ["parameters, MB", *(f"{each.parameter_bytes / 1e6:,.2f}" for each in (dense, pruned))],
        ["weights on disk, MB", *(_megabytes(each.disk_bytes) for each in (dense, pruned))],
        *(
            [f"key/value cache, {name}", f"{before:,}", f"{after:,}"]
            for name, before, after in cache_rows(dense.cache, pruned.cache)
        ),
    ]


def _megabytes(size: int | None) -> str:
    return "–" if size is None else f"{size / 1e6:,.2f}"


def _number(value: float) -> str:
    """A number with at least three significant digits; a dash for NaN."""
    if value != value:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def speed_figure(speed: Speed) -> Figure:
    """A figure with one row of panels per mode and one panel per length."""
    modes = list(dict.fromkeys(each.case.mode for each in speed.timings))
    lengths = sorted({each.case.length for each in speed.timings})
    size = (max(5.2, 2.1 * len(lengths) + 0.6), 1.9 * len(modes) + 0.6)
    figure, all_axes = grid_of(len(modes), len(lengths), size, sharey="row")
    for row, mode in zip(all_axes, modes, strict=True):
        for axes, length in zip(row, lengths, strict=True):
            found = [
                each
                for each in speed.timings
                if (each.case.mode, each.case.length) == (mode, length)
            ]
            axes.set_visible(bool(found))
            if found:
                _panel(axes, found)
    figure.legend(*all_axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.supylabel("times as fast as the dense model", fontsize=8)
    return figure


def _panel(axes: Axes, timings: Sequence[Timing]) -> None:
    places = np.arange(len(timings))
    speedup, noise = [each.speedup for each in timings], [each.noise for each in timings]
    axes.axhline(1, color=LINE, linewidth=0.8, zorder=0)
    axes.vlines(
        places,
        [each.low for each in noise],
        [each.high for each in noise],
        color=LINE,
        linewidth=7,
        label="dense against itself",
    )
    axes.hlines(
        [each.ceiling for each in timings],
        places - 0.3,
        places + 0.3,
        color=INK,
        linewidth=1.2,
        label="ceiling by FLOPs",
    )
    axes.vlines(
        places,
        [each.low for each in speedup],
        [each.high for each in speedup],
        color=ACCENT,
        linewidth=1.2,
    )
    axes.scatter(
        places,
        [each.value for each in speedup],
        color=ACCENT,
        s=16,
        zorder=3,
        label="measured, 95 % interval",
    )
    case = timings[0].case
    axes.set_title(f"{case.mode}, {case.size}")
    axes.set_xticks(places, [str(each.case.batch) for each in timings])
    axes.set_xlim(-0.6, len(timings) - 0.4)
    axes.set_xlabel("batch", color=MUTED)


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
    speed_document(speed, names).write(out / "speed.md", figures=".")
    drawn = ["speed.md", *(f"speed.{kind}" for kind in FORMATS)]
    write_sealed(out / "speed.json", record(speed) | dict(about or {}), drawn)


def record(speed: Speed) -> dict[str, Any]:
    """All numbers as JSON values."""
    return {
        "dense": asdict(speed.dense),
        "pruned": asdict(speed.pruned),
        "cases": [each.record() for each in speed.timings],
        "left_out": list(speed.left_out),
        "warnings": speed.warnings(),
        "machine": asdict(speed.machine),
    }
