"""A curve as SVG coordinates: a number against heads kept, one line for each method."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from headcount import numbers
from headcount.results import RANDOM, CurvePoints

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 620, 320, 66, 18, 14, 52
"""Size and margins of the chart."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7A3E9D", "#8C564B")
"""Colours of the methods, in order; colour-blind readers can distinguish them."""

MARKERS = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0",
    "M-4 -4h8v8h-8z",
    "M0 -5L5 4H-5z",
    "M0 -5.5L5 0L0 5.5L-5 0z",
    "M-5 -4H5L0 5z",
    "M-5 0L4 -5V5z",
    "M5 0L-4 -5V5z",
    "M-5 -1.5h3.5v-3.5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5z",
)
"""Outlines of the points of the methods, around 0, 0."""

CLOSEST = 34.0
"""Smallest distance of two labels of an axis."""


@final
@dataclass(frozen=True)
class Dot:
    """One measured point."""

    x: float
    y: float
    text: str


@final
@dataclass(frozen=True)
class Line:
    """One method."""

    method: str
    colour: str
    marker: str
    is_random: bool
    path: str
    band: str
    """Range over the seeds as a closed path; empty if there is one seed."""
    dots: tuple[Dot, ...]


@final
@dataclass(frozen=True)
class Chart:
    """One number of a curve."""

    title: str
    lines: tuple[Line, ...]
    ticks: tuple[tuple[float, str], ...]
    """y and text of each tick."""
    budgets: tuple[tuple[float, str], ...]
    """x and text of each budget that was measured; the text is empty where there is no room."""
    dense: float
    """y of the model with all heads."""


@final
@dataclass(frozen=True)
class _Scale:
    """Both axes."""

    most: int
    low: float
    high: float

    def x(self, keep: int) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * keep / self.most, 1)

    def y(self, value: float) -> float:
        part = (value - self.low) / (self.high - self.low)
        return round(TOP + (HEIGHT - TOP - BOTTOM) * (1 - part), 1)


def chart(points: CurvePoints, column: str, title: str) -> Chart:
    """The chart of one column of a curve, with an axis that names the budgets that were run."""
    dense = points.dense
    known = [dense.numbers[column]]
    known += [
        v for m in points.methods for k in points.keeps for v in _finite(points, m, k, column)
    ]
    step = _step(max(known) - min(known))
    low, high = math.floor(min(known) / step) * step, math.ceil(max(known) / step) * step
    scale = _Scale(dense.keep, low, high if high > low else low + step)
    count = round((scale.high - low) / step)
    return Chart(
        title,
        tuple(
            _line(points, column, method, place, scale)
            for place, method in enumerate(points.methods)
        ),
        tuple((scale.y(low + n * step), _tick(low + n * step, step)) for n in range(count + 1)),
        _budgets([dense.keep, *points.keeps], scale),
        scale.y(dense.numbers[column]),
    )


def _finite(points: CurvePoints, method: str, keep: int, column: str) -> list[float]:
    return [value for value in points.values(method, keep, column) if math.isfinite(value)]


def _line(points: CurvePoints, column: str, method: str, place: int, scale: _Scale) -> Line:
    dense = points.dense
    values = {keep: _finite(points, method, keep, column) for keep in points.keeps}
    # A method may have its own point with all heads.
    values = {dense.keep: [dense.numbers[column]], **values}
    ends = [(keep, each) for keep, each in values.items() if each]
    dots = tuple(
        Dot(scale.x(keep), scale.y(_mean(each)), f"{method}, {keep:,} kept: {_text(each)}")
        for keep, each in ends
    )
    upper = [(scale.x(keep), scale.y(max(each))) for keep, each in ends]
    lower = [(scale.x(keep), scale.y(min(each))) for keep, each in reversed(ends)]
    has_range = any(len(each) > 1 for _, each in ends)
    return Line(
        method=method,
        colour="" if method == RANDOM else COLOURS[place % len(COLOURS)],
        marker=MARKERS[place % len(MARKERS)],
        is_random=method == RANDOM,
        path=_path([(dot.x, dot.y) for dot in dots]),
        band=f"{_path(upper + lower)}Z" if has_range else "",
        dots=dots,
    )


def _path(places: Sequence[tuple[float, float]]) -> str:
    return "".join(f"{'L' if number else 'M'}{x} {y}" for number, (x, y) in enumerate(places))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _text(values: Sequence[float]) -> str:
    """A number, or the mean of several with their range."""
    text = numbers.effect(_mean(values))
    if len(values) < 2:
        return text
    return f"{text} ({numbers.effect(min(values))} to {numbers.effect(max(values))})"


def _step(span: float) -> float:
    """A round step with which a span has three to six ticks."""
    if span <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(span / 4))
    return next(size * power for size in (1, 2, 2.5, 5, 10) if size * power >= span / 5)


def _tick(value: float, step: float) -> str:
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    digits += 0 if math.isclose(step * 10**digits % 1, 0, abs_tol=1e-6) else 1
    return f"{value:,.{digits}f}".replace("-", "−")


def _budgets(keeps: Sequence[int], scale: _Scale) -> tuple[tuple[float, str], ...]:
    """All budgets, the most heads first; one whose label has no room has none."""
    found, last = [], math.inf
    for keep in keeps:
        x = scale.x(keep)
        has_room = last - x >= CLOSEST
        found.append((x, f"{keep:,}" if has_room else ""))
        last = x if has_room else last
    return tuple(found)
