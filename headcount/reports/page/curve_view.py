"""The section on a curve: score and loss against heads kept, and what the kept heads do."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from headcount import numbers
from headcount.reports.kinds import leading
from headcount.reports.page.answer_view import best_method, pruning_answer
from headcount.reports.page.curve_plot import Chart, chart
from headcount.reports.page.kept_view import Keeping, KeptRow, curve_keepings, kept_rows
from headcount.reports.page.section import Section
from headcount.results import METRICS, Analysis, CurvePoints, CurveRecord


@final
@dataclass(frozen=True)
class CurveTable:
    """One number of a curve: one row a budget, one column a method."""

    title: str
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    """Budget and the number of every method."""


@final
@dataclass(frozen=True)
class CurveView:
    """The section."""

    lede: str
    sentences: tuple[str, ...]
    """What `headcount curve` says of the methods."""
    warnings: tuple[str, ...]
    methods: tuple[str, ...]
    best: str
    """The method with the lowest loss on the development data; empty if there is none."""
    charts: tuple[Chart, ...]
    tables: tuple[CurveTable, ...]
    keepings: tuple[Keeping, ...]
    """The choices of the best method."""
    kept: tuple[KeptRow, ...]
    """Kinds and sites of the heads that it keeps."""


def section(run: Analysis) -> Section | None:
    """The section on the curve; None without one."""
    view = curve_view(run)
    title = "How many heads can be pruned"
    return view and Section("curve", title, "pruning", "_curve.html.j2", view)


def curve_view(run: Analysis) -> CurveView | None:
    """The view of the curve; None without one, or if it has no number."""
    if run.curve is None:
        return None
    points, record = run.curve.points, run.curve.record
    columns = _columns(points, record)
    if not columns or not points.keeps:
        return None
    shown = curve_keepings(run)
    kept = kept_rows(run, leading(run), [each.kept for each in shown]) if shown else ()
    return CurveView(
        lede=pruning_answer(run),
        sentences=record.sentences,
        warnings=record.warnings,
        methods=tuple(points.methods),
        best=best_method(points) or "",
        charts=tuple(chart(points, column, title) for column, title in columns),
        tables=tuple(_table(points, column, title) for column, title in columns),
        keepings=shown,
        kept=kept,
    )


def _columns(points: CurvePoints, record: CurveRecord) -> list[tuple[str, str]]:
    """Score and loss, each on the test data if there is any, with their titles."""
    names = {"score": METRICS.get(record.metric, record.metric), "loss": "Loss (nats)"}
    found = []
    for column, title in names.items():
        if f"test_{column}" in points:
            found.append((f"test_{column}", f"{title} on test data"))
        elif column in points:
            found.append((column, f"{title} on the data that chose the method"))
    return found


def _table(points: CurvePoints, column: str, title: str) -> CurveTable:
    dense, methods = points.dense, points.methods
    everything = numbers.effect(dense.numbers[column])
    rows = [(f"{numbers.count(dense.keep)} (all)", tuple(everything for _ in methods))]
    if points.controls:
        controls = [points.controls.get(name) for name in methods]
        cells = [_cell([each.numbers[column]] if each else []) for each in controls]
        rows.append((f"{numbers.count(dense.keep)} (all), control", tuple(cells)))
    rows += [
        (numbers.count(keep), tuple(_cell(points.values(each, keep, column)) for each in methods))
        for keep in points.keeps
    ]
    return CurveTable(title, tuple(rows))


def _cell(values: Sequence[float]) -> str:
    """A number, or the mean of several seeds with their range."""
    if not values:
        return numbers.UNKNOWN
    mean = numbers.effect(sum(values) / len(values))
    if len(values) == 1:
        return mean
    return f"{mean} ({numbers.effect(min(values))} to {numbers.effect(max(values))})"
