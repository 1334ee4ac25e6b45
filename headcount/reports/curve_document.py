"""The files of a curve: the table, the figures, and a document that shows the numbers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from headcount.core import (
    FORMATS,
    Heads,
    amount,
    code,
    save,
    styled,
    table,
    write_readable,
)
from headcount.models import Loaded
from headcount.pruning import Method, trained
from headcount.reports.figures.curves import CURVE_FIGURES, curve_figures
from headcount.results import METRICS, RANDOM, Curve, CurvePoints, CurveRecord
from headcount.tasks import TaskSplits


@final
@dataclass(frozen=True)
class CurveFacts:
    """Facts about a curve that its rows do not hold."""

    heads: Heads
    metric: str
    higher_is_better: bool
    warnings: tuple[str, ...]
    signature: str
    roles: Mapping[str, Sequence[str]] | None = None
    """Roles of every head; None without an analysis of the model."""
    updates: Mapping[str, int] = field(default_factory=dict)
    """Number of weight updates per point, for the methods that train weights."""

    @classmethod
    def of(
        cls,
        loaded: Loaded,
        splits: TaskSplits,
        methods: Mapping[str, Method],
        signature: str,
        roles: Mapping[str, Sequence[str]] | None = None,
        left_out: Mapping[str, str] | None = None,
    ) -> "CurveFacts":
        """The facts about a curve.

        Args:
            loaded: the model.
            splits: the data that heads were chosen and points were measured on.
            methods: the methods, by their name in the table.
            signature: the signature of everything that the points depend on.
            roles: roles of every head; None without an analysis of the model.
            left_out: the reason for each method that could not choose heads of this model.
        """
        without = left_out or {}
        measured = {name: each for name, each in methods.items() if name not in without}
        return cls(
            heads=loaded.heads,
            metric=splits.dev.metric,
            higher_is_better=splits.dev.higher_is_better,
            warnings=(
                *splits.warnings,
                *(f"{name} is left out: {why.rstrip('.')}" for name, why in without.items()),
            ),
            signature=signature,
            roles=roles,
            updates={name: tuning.updates for name, tuning in trained(measured).items()},
        )


def write_curve(
    points: CurvePoints,
    facts: CurveFacts,
    folder: Path,
    arguments: Mapping[str, Any] | None = None,
) -> list[Path]:
    """Write the table, the document, the figures, and the record last.

    Returns:
        The paths of the figures.
    """
    figures = curve_figures(points, facts.heads, facts.metric, facts.roles)
    paths = []
    with styled():
        for name, draw in figures.items():
            figure = draw()
            paths += [save(figure, folder / "figures" / f"{name}.{kind}") for kind in FORMATS]
    for stale in set(CURVE_FIGURES) - set(figures):  # of an earlier run with more data
        for kind in FORMATS:
            (folder / "figures" / f"{stale}.{kind}").unlink(missing_ok=True)
    write_readable(folder / "curve.md", document(points, facts, list(figures)))
    record = CurveRecord(
        metric=facts.metric,
        heads=facts.heads.counts,
        warnings=facts.warnings,
        sentences=tuple(sentences(points, facts)),
        signature=facts.signature,
        arguments=arguments or {},
    )
    Curve(record, points).write(folder, ["curve.md"])
    return paths


def document(points: CurvePoints, facts: CurveFacts, figures: Sequence[str]) -> str:
    """One table per number, their summary, and the figures."""
    parts = ["# How many heads can be pruned", f"{facts.heads}.", *sentences(points, facts)]
    parts += [f"**Warning**: {warning}." for warning in facts.warnings]
    for column, title in _columns(points, facts.metric):
        parts += [f"## {title}", numbers_table(points, column)]
    parts += ["## Figures", *(f"![{name}](figures/{name}.svg)" for name in figures)]
    return "\n\n".join([*parts, code(str(facts.signature))]) + "\n"


def numbers_table(points: CurvePoints, column: str, by_method: bool = False) -> str:
    """One row per budget, one column per method; random shows the mean and range of its seeds.

    Args:
        points: the curve.
        column: `score` or `loss`.
        by_method: use one row per method instead, for a narrow terminal.
    """
    dense = points.dense
    first = [f"{dense.keep} (all)"] + [
        _cell(points.values(method, dense.keep, column) or [dense.numbers[column]])
        for method in points.methods
    ]
    controls = [
        _cell([points.controls[name].numbers[column]] if name in points.controls else [])
        for name in points.methods
    ]
    beside = [[f"{dense.keep} (all), control", *controls]] if points.controls else []
    rest = [
        [str(keep), *(_cell(points.values(method, keep, column)) for method in points.methods)]
        for keep in points.keeps
    ]
    rows = [["heads kept", *points.methods], first, *beside, *rest]
    if by_method:
        rows = list(map(list, zip(*rows, strict=True)))
    return table(rows[0], rows[1:])


def sentences(points: CurvePoints, facts: CurveFacts) -> list[str]:
    """Sentences on the best method over all budgets, and on those no better than random heads."""
    column = "score" if "score" in points else "loss"
    more_is_better = column == "score" and facts.higher_is_better
    reported = [_trained(points, method, updates) for method, updates in facts.updates.items()]
    mean = {method: points.mean(method, column) for method in points.methods}
    if not all(map(math.isfinite, mean.values())):  # no budget, or a broken model
        return reported
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
        beside = f"No better than random: {', '.join(below)}" if below else "Every method is better"
        best.append(f"Random heads: {_number(mean[RANDOM])}{f'. {beside}' if others else ''}.")
    return [*best, *reported]


def _trained(points: CurvePoints, method: str, updates: int) -> str:
    """What sets a method's points apart from the dense model as it was given."""
    along = f"{method} also trained the weights, {amount(updates, 'update')} per point. "
    if method in points.controls:
        return (
            along + "Compare it with its control: the dense model after as many updates, without a "
            "teacher."
        )
    return along + "The dense model was not trained: there is no control."


def _columns(points: CurvePoints, metric: str) -> list[tuple[str, str]]:
    """The available numbers with their titles, the test set first."""
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
