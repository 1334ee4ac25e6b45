"""Comparisons as SVG coordinates: shares of relations with their intervals, and scatter plots."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from headcount import numbers

STRIP_WIDTH, STRIP_MARGIN = 320, 8
"""Width and margin of the strip of one relation; shares run from 0 to 1."""

SIZE, LEFT, RIGHT, TOP, BOTTOM = 330, 66, 12, 12, 52
"""Width and height of a scatter plot, and its margins."""


@final
@dataclass(frozen=True)
class Span:
    """A share with its interval and its null on a strip."""

    x: float
    low: float
    high: float
    null: float


def span(share: float, low: float, high: float, null: float) -> Span:
    """A share on the strip; ends outside of 0 ... 1 are cut."""
    inner = STRIP_WIDTH - 2 * STRIP_MARGIN

    def at(value: float) -> float:
        return round(STRIP_MARGIN + inner * min(1.0, max(0.0, value)), 1)

    return Span(at(share), at(low), at(high), at(null))


@final
@dataclass(frozen=True)
class Dot:
    """One head in a scatter plot."""

    head: str
    site: str
    x: float
    y: float
    text: str


@final
@dataclass(frozen=True)
class Scatter:
    """One number of every head in both runs, on equal axes."""

    title: str
    dots: tuple[Dot, ...]
    ticks: tuple[tuple[float, float, str], ...]
    """x, y and text of each tick of both axes."""


def scatter(
    title: str, heads: Sequence[tuple[str, str]], pairs: Sequence[tuple[float, float]]
) -> Scatter:
    """A scatter plot.

    Args:
        title: name of the number.
        heads: name and site of each head.
        pairs: its numbers in the first and the second run; heads without one are left out.
    """
    known = [
        (head, pair)
        for head, pair in zip(heads, pairs, strict=True)
        if all(map(math.isfinite, pair))
    ]
    values = [value for _, pair in known for value in pair] or [0.0]
    low, high = min(values), max(values)
    step = _step(high - low)
    low, high = math.floor(low / step) * step, math.ceil(high / step) * step
    span = (high - low) or step

    def place(value: float) -> tuple[float, float]:
        part = (value - low) / span
        across, up = SIZE - LEFT - RIGHT, SIZE - TOP - BOTTOM
        return round(LEFT + across * part, 1), round(TOP + up * (1 - part), 1)

    dots = tuple(
        Dot(
            head,
            site,
            place(a)[0],
            place(b)[1],
            f"{head}: {numbers.effect(a)}, {numbers.effect(b)}",
        )
        for (head, site), (a, b) in known
    )
    count = round((high - low) / step)
    ticks = [low + number * step for number in range(count + 1)]
    texts = tuple((*place(tick), f"{tick:.6g}".replace("-", "−")) for tick in ticks)
    return Scatter(title, dots, texts)


def _step(span: float) -> float:
    """A round step with which a span has two to four ticks."""
    if span <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(span / 3))
    return next(size * power for size in (1, 2, 5, 10, 20) if size * power >= span / 3.5)
