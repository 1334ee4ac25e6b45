"""Figures of a training: importance, prunability, confidence and roles by checkpoint.

Figures 5 and 6 of Are Sixteen Heads Really Better than One? (Michel et al., 2019) for any training.
https://arxiv.org/abs/1905.10650
"""

from collections.abc import Callable, Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headcount.core import ACCENT, MUTED, Chart, new_figure
from headcount.papers.following.record import FollowedCheckpoint, FollowRecord
from headcount.results import METRICS

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#7A3E9D", "#CC79A7", "#E69F00", "#56B4E9", "#555555")
MARKERS = "os^Dv<>p"


def following_charts(record: FollowRecord) -> list[Chart]:
    """Every figure."""
    points = record.checkpoints
    metric = METRICS.get(record.metric, record.metric)
    drawn: dict[str, tuple[str, Callable[[Axes], None]]] = {
        "importance": ("Rank correlation of importance", lambda axes: _importance(axes, points)),
        "prunable": (
            f"Share of heads that can be pruned, loss at most {100 * record.within:g} % higher",
            lambda axes: _prunable(axes, points),
        ),
        "pruned-loss": ("Loss by share of pruned heads", lambda axes: _losses(axes, record)),
        "confidence": (
            "Confidence: mean and quartiles of heads",
            lambda axes: _confidence(axes, points),
        ),
        "roles": ("Heads with a role", lambda axes: _counts(axes, points, "roles")),
        "tendencies": ("Heads with a tendency", lambda axes: _counts(axes, points, "tendencies")),
        "score": (f"Score of the model: {metric}", lambda axes: _score(axes, points)),
    }
    for counted in ("roles", "tendencies"):
        if not any(getattr(point, counted) for point in points):
            del drawn[counted]
    return [
        Chart(name, title, partial(_drawn, draw, title)) for name, (title, draw) in drawn.items()
    ]


def _drawn(draw: Callable[[Axes], None], title: str) -> Figure:
    """A figure of one panel under its title, with a legend if its lines have names."""
    figure = new_figure(5.2, 2.9)
    axes = figure.subplots()
    draw(axes)
    axes.set_title(title)
    if axes.get_legend_handles_labels()[0]:
        figure.legend(loc="outside right upper")
    return figure


def _along(axes: Axes, points: Sequence[FollowedCheckpoint]) -> list[int]:
    """Positions of the checkpoints; by step if they carry one."""
    if points[0].step is not None:
        axes.set_xlabel("updates")
        return [each.step or 0 for each in points]
    axes.set_xlabel("checkpoint")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return list(range(1, len(points) + 1))


def _band(axes: Axes, at: Sequence[int], ends: Sequence[tuple[float, float]], colour: str) -> None:
    lows, highs = ([end[side] for end in ends] for side in (0, 1))
    axes.fill_between(at, lows, highs, color=colour, alpha=0.2, linewidth=0)


def _line(
    axes: Axes,
    at: Sequence[int],
    values: Sequence[int | float],
    number: int,
    label: str | None = None,
) -> None:
    axes.plot(
        at,
        values,
        color=COLOURS[number % len(COLOURS)],
        marker=MARKERS[number % len(MARKERS)],
        markersize=3.5,
        linewidth=1.3,
        label=label,
    )


def _importance(axes: Axes, points: Sequence[FollowedCheckpoint]) -> None:
    at = _along(axes, points)
    agreed = [each.correlation for each in points]
    _band(axes, at, [(each.low, each.high) for each in agreed], COLOURS[0])
    _line(axes, at, [each.rho for each in agreed], 0, "with the last")
    _line(axes, at, [each.across_halves for each in points], 1, "on the other half")
    axes.axhline(
        points[-1].across_halves, color=MUTED, linestyle="--", linewidth=0.8, label="ceiling"
    )
    axes.set_ylim(min(0, axes.get_ylim()[0]), 1.02)


def _prunable(axes: Axes, points: Sequence[FollowedCheckpoint]) -> None:
    at = _along(axes, points)
    _band(axes, at, [(each.prunable_low, each.prunable_high) for each in points], COLOURS[0])
    _line(axes, at, [each.prunable for each in points], 0)
    axes.set_ylim(0, 1.02)


def _losses(axes: Axes, record: FollowRecord) -> None:
    """The loss by share of pruned heads, a line for each checkpoint, as in figure 5."""
    heads = sum(sum(counts) for counts in record.heads.values())
    for number, point in enumerate(record.checkpoints):
        counts = sorted(point.losses)
        shade = 0.3 + 0.7 * (number + 1) / len(record.checkpoints)
        axes.plot(
            [count / heads for count in counts],
            [point.losses[count] for count in counts],
            color=ACCENT,
            alpha=shade,
            linewidth=1.1,
            label=point.name if point.step is None else f"{point.step:,}",
        )
    axes.set_xlabel("share of heads pruned")


def _confidence(axes: Axes, points: Sequence[FollowedCheckpoint]) -> None:
    at = _along(axes, points)
    _band(axes, at, [(each.confidence_low, each.confidence_high) for each in points], COLOURS[0])
    _line(axes, at, [each.confidence for each in points], 0)
    axes.set_ylim(0, 1.02)


def _counts(axes: Axes, points: Sequence[FollowedCheckpoint], field: str) -> None:
    at = _along(axes, points)
    names = sorted({name for point in points for name in getattr(point, field)})
    for number, name in enumerate(names):
        _line(axes, at, [getattr(point, field).get(name, 0) for point in points], number, name)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))


def _score(axes: Axes, points: Sequence[FollowedCheckpoint]) -> None:
    at = _along(axes, points)
    _line(axes, at, [each.score for each in points], 0)
