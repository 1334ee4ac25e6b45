"""The files of a curve: the table, figures, and a document with the numbers side by side."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import pandas as pd

from headcount.files import nulls_for_nan, write_atomically, write_json, write_text
from headcount.heads import Heads
from headcount.markdown import table
from headcount.reports.curve_points import RANDOM, CurvePoints
from headcount.reports.figure_curve import CURVE_FIGURES, curve_figures
from headcount.reports.figure_style import FORMATS, save, styled
from headcount.reports.measure_names import METRICS

FILES = ("curve.parquet", "curve.md", "curve.json")
"""What a curve leaves, besides `figures/` and `state/`."""


@final
@dataclass(frozen=True)
class CurveFacts:
    """What is known of a curve beside its rows."""

    heads: Heads
    metric: str
    higher_is_better: bool
    warnings: tuple[str, ...]
    signature: str
    roles: Mapping[str, Sequence[str]] | None = None
    """Of every head, where an analysis of the model was given."""
    updates: Mapping[str, int] = field(default_factory=dict)
    """Of the weights, a point, by the methods that train them."""


def write_curve(
    frame: pd.DataFrame, facts: CurveFacts, folder: Path, arguments: dict[str, Any] | None = None
) -> list[Path]:
    """Write table, document, figures, and the record last.

    Returns:
        The paths of the figures.
    """
    write_atomically(folder / "curve.parquet", lambda file: frame.to_parquet(file, index=False))
    points = CurvePoints.of(frame)
    figures = curve_figures(points, facts.heads, facts.metric, facts.roles)
    paths = []
    with styled():
        for name, draw in figures.items():
            figure = draw()
            paths += [save(figure, folder / "figures" / f"{name}.{kind}") for kind in FORMATS]
    for stale in set(CURVE_FIGURES) - set(figures):  # of an earlier run with more data
        for kind in FORMATS:
            (folder / "figures" / f"{stale}.{kind}").unlink(missing_ok=True)
    write_text(folder / "curve.md", document(points, facts, list(figures)))
    record = {
        "metric": facts.metric,
        "heads": facts.heads.counts,
        "warnings": list(facts.warnings),
        "sentences": sentences(points, facts),
        "signature": facts.signature,
        "arguments": arguments or {},
    }
    write_json(folder / "curve.json", nulls_for_nan(record))
    return paths


def document(points: CurvePoints, facts: CurveFacts, figures: Sequence[str]) -> str:
    """A table for each number, what they say, and the figures."""
    parts = ["# How many heads can go", f"{facts.heads}.", *sentences(points, facts)]
    parts += [f"**Warning**: {warning}." for warning in facts.warnings]
    for column, title in _columns(points, facts.metric):
        parts += [f"## {title}", numbers_table(points, column)]
    parts += ["## Figures", *(f"![{name}](figures/{name}.svg)" for name in figures)]
    return "\n\n".join([*parts, f"`{facts.signature}`"]) + "\n"


def numbers_table(points: CurvePoints, column: str, by_method: bool = False) -> str:
    """A row a budget, a column a method; random as the mean and range of its seeds.

    Args:
        points: the curve.
        column: `score` or `loss`.
        by_method: rows are methods, as suits a narrow terminal.
    """
    whole = points.whole
    first = [f"{whole.keep} (all)"] + [
        _cell(points.values(method, whole.keep, column) or [whole.numbers[column]])
        for method in points.methods
    ]
    controls = [
        _cell([points.controls[name].numbers[column]] if name in points.controls else [])
        for name in points.methods
    ]
    beside = [[f"{whole.keep} (all), trained as long", *controls]] if points.controls else []
    rest = [
        [str(keep), *(_cell(points.values(method, keep, column)) for method in points.methods)]
        for keep in points.keeps
    ]
    rows = [["heads left", *points.methods], first, *beside, *rest]
    if by_method:
        rows = list(map(list, zip(*rows, strict=True)))
    return table(rows[0], rows[1:])


def sentences(points: CurvePoints, facts: CurveFacts) -> list[str]:
    """Which method is best over all budgets, and which are no better than random heads."""
    column = "score" if "score" in points else "loss"
    more_is_better = column == "score" and facts.higher_is_better
    told = [_trained(points, method, updates) for method, updates in facts.updates.items()]
    mean = {method: points.mean(method, column) for method in points.methods}
    if not all(map(math.isfinite, mean.values())):  # no budget, or a model that is broken
        return told
    sign = 1 if more_is_better else -1
    ranked = sorted(mean, key=lambda name: sign * mean[name], reverse=True)
    name = METRICS.get(facts.metric, facts.metric) if column == "score" else "loss"
    best = [
        f"Best mean {name} over the budgets: {one} ({_number(mean[one])})."
        for one in [method for method in ranked if method != RANDOM][:1]
    ]
    if RANDOM in mean:
        others = [one for one in ranked if one != RANDOM]
        below = [one for one in others if sign * (mean[one] - mean[RANDOM]) <= 0]
        beside = f"no better than that: {', '.join(below)}" if below else "every method is better"
        best.append(f"Random heads: {_number(mean[RANDOM])}{f'; {beside}' if others else ''}.")
    return [*best, *told]


def _trained(points: CurvePoints, method: str, updates: int) -> str:
    """What a method's points have had that the whole model as it was given has not."""
    along = f"{method} trained the weights along, {updates:,} updates a point, "
    if method in points.controls:
        return (
            along + "so hold it against all heads trained as long (its control), without teacher."
        )
    return along + "and all heads as they were given did not: there is no control."


def _columns(points: CurvePoints, metric: str) -> list[tuple[str, str]]:
    """The numbers that there are, the test set first, with their titles."""
    names = {"score": METRICS.get(metric, metric), "loss": "Loss (nats)"}
    return [
        (f"{prefix}{column}", f"{title}, {data}")
        for prefix, data in (("test_", "test set"), ("", "development set"))
        for column, title in names.items()
        if f"{prefix}{column}" in points
    ]


def _cell(values: Sequence[float]) -> str:
    if len(values) < 2:
        return _number(values[0]) if values else "–"
    mean = sum(values) / len(values)
    return f"{_number(mean)} ({_number(min(values))} to {_number(max(values))})"


def _number(value: float) -> str:
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"
