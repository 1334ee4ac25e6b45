"""What a curve shows: how good a model is with fewer and fewer heads, by method.

To the page of an analysis it adds how many heads can be pruned, and which.
"""

import math
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import final

from headcount import models, numbers, pruning, tasks
from headcount.core import Block, Chart, Document, Heading, Heads, Table, Text, amount
from headcount.pages import (
    Given,
    Keeping,
    Note,
    PagePart,
    curve_charts,
    curve_command,
    kept_table,
    score_curve,
)
from headcount.results import METRICS, RANDOM, Analysis, Curve, CurvePoints, CurveRecord, loss_unit
from headcount.vocabulary import VOITA

BUDGETS = 4
"""Number of budgets of a curve that are named."""


def _pruning_answer(run: Analysis) -> str:
    """How many heads can be pruned at which loss, by the best method; empty without a curve.

    The loss on the development data chooses the method; scores are of the test data if there are
    any.
    """
    if run.curve is None:
        return ""
    points, record = run.curve.points, run.curve.record
    best = best_method(points)
    columns = [name for name in ("test_score", "score", "test_loss", "loss") if name in points]
    if best is None or not columns:
        return ""
    column = columns[0]
    keeps = [keep for keep in points.keeps if points.values(best, keep, column)][:BUDGETS]
    what = METRICS.get(record.metric, record.metric) if "score" in column else "the loss"
    data = "test data" if column.startswith("test") else "the data that chose the method"
    parts = [f"{_mean(points, best, keep, column)} with {keep:,}" for keep in keeps]
    text = (
        f"On {data}, {what} is {numbers.effect(points.dense.numbers[column])} with all "
        f"{numbers.of(points.dense.keep, 'head', 'heads')}, {numbers.listed(parts)}, chosen by "
        f"{best}."
    )
    random = [keep for keep in keeps if points.values(RANDOM, keep, column)]
    if random and best != RANDOM:
        chance = _mean(points, RANDOM, random[0], column)
        text += f" Random choices of {random[0]:,} reach {chance} on average."
    return text


def best_method(points: CurvePoints) -> str | None:
    """The method with the lowest mean loss on the development data; None without any loss."""
    known = [name for name in points.methods if math.isfinite(points.mean(name, "loss"))]
    own = [name for name in known if name != RANDOM] or known
    return min(own, key=lambda name: points.mean(name, "loss"), default=None)


def _mean(points: CurvePoints, method: str, keep: int, column: str) -> str:
    values = points.values(method, keep, column)
    return numbers.effect(sum(values) / len(values))


def _curve_keepings(run: Analysis) -> tuple[Keeping, ...]:
    """The choices of the best method of a curve, the most heads first; none without a curve."""
    method = None if run.curve is None else best_method(run.curve.points)
    if run.curve is None or method is None:
        return ()
    total = run.curve.points.dense.keep
    chosen = [each for each in run.curve.points.first_seed(method) if each.heads]
    points = [each for each in reversed(chosen) if each.keep < total]
    everything = numbers.of(total, "head", "heads")
    return tuple(
        Keeping(
            f"keep-{point.keep}",
            numbers.count(point.keep),
            f"{numbers.count(point.keep)} of {everything} kept by {method}.",
            "" if number else f"by {method}",
            tuple(map(str, point.heads)),
            method,
        )
        for number, point in enumerate(points)
    )


def curve_shown(run: Analysis) -> Document | None:
    """The document of the curve, and what the heads do that its best method keeps.

    None without a curve, or if it has no number.
    """
    found = run.curve
    if found is None or not found.points.keeps or not _pruning_answer(run):
        return None
    shown = curve_document(found, {row.head: row.roles for row in run.rows})
    blocks = (Text(_pruning_answer(run), "lede"), *shown.blocks)
    choices = _curve_keepings(run)
    if choices:
        kept = {each.label: each.kept for each in choices}
        blocks += (Heading(f"What {choices[0].method} keeps"), kept_table(run, kept))
    return replace(shown, blocks=blocks).ending(found.record.warnings, found.record.signature)


def _points(points: CurvePoints) -> Document:
    """The curve of the score, or of the loss, and its numbers."""
    columns = [name for name in ("test_score", "score", "test_loss", "loss") if name in points]
    column = next(name for name in columns if math.isfinite(points.dense.numbers[name]))
    label = "score" if "score" in column else "loss"
    says = f"{label.capitalize()} on {'test' if 'test' in column else 'development'} data"
    chart = Chart(column, says, lambda: score_curve(points, column, label))
    return Document("How many heads can be pruned", (chart, numbers_table(points, column)))


@final
class _CurvePart(PagePart):
    """How many heads can be pruned at which loss, and the heads of the best method."""

    def answers(self, run: Analysis) -> Iterable[tuple[str, str]]:
        """How many heads can be pruned at which loss."""
        return (("How many can be pruned", _pruning_answer(run)),)

    def step(self, run: Analysis, given: Given) -> str:
        """A curve, once the heads are scored."""
        if run.importance is None or run.curve is not None:
            return ""
        on = {"task": run.importance.task, "data": ["FILE"], **run.importance.arguments}
        keep = [len(run.rows) * quarter // 4 for quarter in (3, 2, 1)]
        curve = curve_command(given.model, on, keep, f"{given.out}/curve")
        return (
            f"`{curve}` shows how many heads can be pruned. "
            f"`headcount report {shlex.quote(given.out)}` adds it here."
        )

    def drawn(self, result: object) -> Document | None:
        """The document of points of a curve."""
        return _points(result) if isinstance(result, CurvePoints) else None

    def keepings(self, run: Analysis) -> Iterable[Keeping]:
        """The choices of the best method."""
        return _curve_keepings(run)


PART = _CurvePart()


def curve_of(
    points: CurvePoints,
    loaded: "models.Loaded",
    splits: "tasks.TaskSplits",
    methods: "Mapping[str, pruning.Method]",
    signature: str,
    left_out: Mapping[str, str] | None = None,
) -> Curve:
    """The curve of some points, with what its rows do not hold.

    Args:
        points: the points.
        loaded: the model.
        splits: the data that heads were chosen and points were measured on.
        methods: the methods, by their name in the table.
        signature: the signature of everything that the points depend on.
        left_out: the reason for each method that could not choose heads of this model.
    """
    without = left_out or {}
    measured = {name: each for name, each in methods.items() if name not in without}
    updates = {name: tuning.updates for name, tuning in pruning.trained(measured).items()}
    task = splits.dev
    record = CurveRecord(
        metric=task.metric,
        heads=loaded.heads.counts,
        warnings=(
            *splits.warnings,
            *(f"{name} is left out: {why.rstrip('.')}" for name, why in without.items()),
            *splits.noticed,
        ),
        sentences=tuple(sentences(points, task.metric, task.higher_is_better, updates)),
        signature=signature,
    )
    return Curve(record, points)


def curve_notes(found: Curve) -> tuple[Note, ...]:
    """What a curve holds."""
    del found
    return (
        Note(
            "Pruning curve",
            "Loss and score of the model with fewer and fewer heads, chosen by each method and at "
            "random.",
            f"{VOITA}, section 6; Li et al., TACL 2021, arXiv:2108.04657",
        ),
    )


def curve_document(found: Curve, roles: Mapping[str, Sequence[str]] | None = None) -> Document:
    """The document of a curve: a table for each number, their summary, and figures.

    Args:
        found: the curve.
        roles: roles of every head; None without an analysis of the model.
    """
    record, points, heads = found.record, found.points, Heads(found.record.heads)
    charts = curve_charts(points, heads, record.metric, roles)
    return Document(
        "How many heads can be pruned",
        (
            *(Text(sentence, "lede") for sentence in record.sentences),
            Text(f"{heads}."),
            *(each for each in charts if not each.is_detail),
            *(
                block
                for column, title in _columns(points, record.metric)
                for block in _numbers(points, column, title)
            ),
            *(each for each in charts if each.is_detail),
        ),
    )


def _numbers(points: CurvePoints, column: str, title: str) -> Iterator[Block]:
    yield Heading(title)
    yield numbers_table(points, column)


def numbers_table(points: CurvePoints, column: str) -> Table:
    """A row for each method, a column for each budget; random shows mean and range of its seeds.

    Args:
        points: the curve.
        column: `score` or `loss`, with the prefix `test_` for the test set.
    """
    dense, keeps, controls = points.dense, points.keeps, points.controls
    headers = ["heads kept", f"{dense.keep} (all)"]
    headers += [f"{dense.keep} (all), control"] if controls else []
    rows = []
    for method in points.methods:
        row = [method, _cell(points.values(method, dense.keep, column) or [dense.numbers[column]])]
        if controls:
            row.append(_cell([controls[method].numbers[column]] if method in controls else []))
        rows.append([*row, *(_cell(points.values(method, keep, column)) for keep in keeps)])
    return Table.of([*headers, *map(str, keeps)], rows)


def sentences(
    points: CurvePoints,
    metric: str,
    higher_is_better: bool,
    updates: Mapping[str, int] | None = None,
) -> list[str]:
    """Sentences on the best method over all budgets, and on those no better than random heads.

    Both are on the development data.

    Args:
        points: the points.
        metric: name of the score.
        higher_is_better: whether a better model has a higher score.
        updates: number of weight updates per point, for the methods that train weights.
    """
    column = "score" if "score" in points else "loss"
    more_is_better = column == "score" and higher_is_better
    reported = [_trained(points, method, number) for method, number in (updates or {}).items()]
    mean = {method: points.mean(method, column) for method in points.methods}
    if not all(map(math.isfinite, mean.values())):  # no budget, or a broken model
        return reported
    sign = 1 if more_is_better else -1
    ranked = sorted(mean, key=lambda name: sign * mean[name], reverse=True)
    name = METRICS.get(metric, metric) if column == "score" else "loss"
    best = [
        f"Best mean {name} on dev over the budgets: {one} ({_number(mean[one])})."
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
    names = {"score": METRICS.get(metric, metric), "loss": f"Loss ({loss_unit(metric)})"}
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
    return numbers.minus(f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}")
