"""Effects as SVG coordinates: one mark on a common axis, or all heads ordered by importance."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from headcount.results import Effect

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 770, 250, 66, 8, 14, 14
"""Size and margins of the chart of all heads."""

ROW_WIDTH, ROW_MARGIN = 200, 6
"""Width and margin of the strip for a mark in a table row."""


@final
@dataclass(frozen=True)
class Mark:
    """A dot with its interval on a strip; None if there is no number."""

    x: float | None
    low: float | None
    high: float | None
    sure: bool


@final
@dataclass(frozen=True)
class Axis:
    """An axis from the smallest to the largest number, zero included."""

    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Axis":
        """The axis that holds all finite values."""
        finite = [0.0, *(value for value in values if math.isfinite(value))]
        low, high = min(finite), max(finite)
        return cls(low, high if high > low else low + 1.0)

    def share(self, value: float) -> float:
        """The position of a value on the axis, from 0 to 1."""
        return (value - self.low) / (self.high - self.low)

    @property
    def zero(self) -> float:
        """The x of zero on a strip."""
        return self._x(0.0) or 0.0

    def mark(self, effect: Effect, sure: float) -> Mark:
        """An effect on a strip; sure if its p is below the threshold or it was not tested."""
        tested = math.isfinite(effect.p)
        ends = (self._x(value) for value in (effect.delta, effect.low, effect.high))
        return Mark(*ends, sure=not tested or effect.p < sure)

    def _x(self, value: float) -> float | None:
        if not math.isfinite(value):
            return None
        return round(ROW_MARGIN + (ROW_WIDTH - 2 * ROW_MARGIN) * self.share(value), 1)


@final
@dataclass(frozen=True)
class Dot:
    """One head in the chart of all heads."""

    head: str
    site: str
    x: float
    y: float
    low: float | None
    high: float | None
    sure: bool
    text: str


@final
@dataclass(frozen=True)
class Ranking:
    """All heads from left to right, the most important first."""

    dots: tuple[Dot, ...]
    ticks: tuple[tuple[float, str], ...]
    """y and text of each tick."""
    zero: float
    """y of no effect."""
    radius: float


def ranking(
    heads: Sequence[str], effects: Sequence[Effect], texts: Sequence[str], sure: float = 0.05
) -> Ranking:
    """The chart of all heads, in the given order."""
    axis = Axis.of([end for effect in effects for end in (effect.delta, effect.low, effect.high)])
    step = (WIDTH - LEFT - RIGHT) / max(1, len(heads))
    dots = [
        Dot(
            head=head,
            site=effect.site,
            x=round(LEFT + step * (place + 0.5), 1),
            y=_y(effect.delta, axis) or 0.0,
            low=_y(effect.low, axis),
            high=_y(effect.high, axis),
            sure=not math.isfinite(effect.p) or effect.p < sure,
            text=text,
        )
        for place, (head, effect, text) in enumerate(zip(heads, effects, texts, strict=True))
    ]
    ticks = tuple(
        (_y(value, axis) or 0.0, f"{value:.6g}".replace("-", "−")) for value in _round_steps(axis)
    )
    return Ranking(
        tuple(dots), ticks, _y(0.0, axis) or 0.0, round(min(3.6, max(1.2, step / 2.6)), 2)
    )


def _y(value: float, axis: Axis) -> float | None:
    if not math.isfinite(value):
        return None
    return round(TOP + (HEIGHT - TOP - BOTTOM) * (1 - axis.share(value)), 1)


def _round_steps(axis: Axis) -> list[float]:
    """Round numbers inside the axis, zero among them."""
    span = axis.high - axis.low
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(size * power for size in (1, 2, 2.5, 5, 10) if size * power >= span / 5)
    first, last = math.ceil(axis.low / step - 1e-9), math.floor(axis.high / step + 1e-9)
    return [step * number for number in range(first, last + 1)]
