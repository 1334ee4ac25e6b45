"""What a curve adds to the page of an analysis: how many heads can be pruned, and which."""

import math
import shlex
from collections.abc import Iterable
from dataclasses import replace
from typing import final

from headcount import numbers
from headcount.core import Chart, Document, Heading, Text
from headcount.pages import Given, Keeping, PagePart, curve_command, kept_table, score_curve
from headcount.pruning.document import curve_document, numbers_table
from headcount.results import METRICS, RANDOM, Analysis, CurvePoints

BUDGETS = 4
"""Number of budgets of a curve that are named."""


def pruning_answer(run: Analysis) -> str:
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


def curve_keepings(run: Analysis) -> tuple[Keeping, ...]:
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
    if found is None or not found.points.keeps or not pruning_answer(run):
        return None
    shown = curve_document(found, {row.head: row.roles for row in run.rows})
    blocks = (Text(pruning_answer(run), "lede"), *shown.blocks)
    choices = curve_keepings(run)
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
class CurvePart(PagePart):
    """How many heads can be pruned at which loss, and the heads of the best method."""

    def answers(self, run: Analysis) -> Iterable[tuple[str, str]]:
        """How many heads can be pruned at which loss."""
        return (("How many can be pruned", pruning_answer(run)),)

    def step(self, run: Analysis, given: Given) -> str:
        """A curve, once the heads are scored."""
        if run.importance is None or run.curve is not None:
            return ""
        on = {"task": run.importance.task, "data": ["FILE"], **run.importance.arguments}
        keep = [len(run.rows) * quarter // 4 for quarter in (3, 2, 1)]
        curve = curve_command(given.model, on, keep, f"{given.out}/curve")
        return (
            f"A curve: `{curve}` shows how many heads can be pruned. `headcount report "
            f"{shlex.quote(given.out)}` adds it here."
        )

    def drawn(self, result: object) -> Document | None:
        """The document of points of a curve."""
        return _points(result) if isinstance(result, CurvePoints) else None

    def keepings(self, run: Analysis) -> Iterable[Keeping]:
        """The choices of the best method."""
        return curve_keepings(run)


PART = CurvePart()
