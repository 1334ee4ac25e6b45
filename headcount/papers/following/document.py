"""The document of a training: findings, a table of the checkpoints, and figures.

The figures show importance, prunability, confidence and roles by checkpoint, as figures 5 and 6 of
Are Sixteen Heads Really Better than One? (Michel et al., 2019) do for one training.
https://arxiv.org/abs/1905.10650
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headcount.core import ACCENT, MUTED, Chart, Document, Table, Text, amount, new_figure
from headcount.numbers import correlation, percent
from headcount.pages import Note
from headcount.papers.following.record import Followed, FollowedCheckpoint, FollowRecord
from headcount.results import METRICS
from headcount.vocabulary import MICHEL

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#7A3E9D", "#CC79A7", "#E69F00", "#56B4E9", "#555555")
MARKERS = "os^Dv<>p"


def following_charts(record: FollowRecord) -> list[Chart]:
    """Every figure."""
    points = record.checkpoints
    loss = f"loss at most {100 * record.within:g} % higher"
    drawn: dict[str, tuple[str, Callable[[Axes, FollowRecord], None]]] = {
        "importance": ("Rank correlation of importance", _importance),
        "prunable": (f"Share of heads that can be pruned, {loss}", _prunable),
        "pruned-loss": ("Loss by share of pruned heads", _losses),
        "confidence": ("Confidence: mean and quartiles of heads", _confidence),
        "roles": ("Heads with a role", partial(_count_lines, "roles")),
        "tendencies": ("Heads with a tendency", partial(_count_lines, "tendencies")),
        "score": (f"Score of the model: {METRICS.get(record.metric, record.metric)}", _score),
    }
    for counted in ("roles", "tendencies"):
        if not any(getattr(point, counted) for point in points):
            del drawn[counted]
    return [
        Chart(name, title, partial(_drawn, draw, record, title))
        for name, (title, draw) in drawn.items()
    ]


def _drawn(draw: Callable[[Axes, FollowRecord], None], record: FollowRecord, title: str) -> Figure:
    """A figure of one panel under its title, with a legend if its lines have names."""
    figure = new_figure(5.2, 2.9)
    axes = figure.subplots()
    draw(axes, record)
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
    axes: Axes, at: Sequence[int], values: Sequence[float], number: int, label: str | None = None
) -> None:
    colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
    axes.plot(at, values, color=colour, marker=marker, markersize=3.5, linewidth=1.3, label=label)


def _importance(axes: Axes, record: FollowRecord) -> None:
    points, at = record.checkpoints, _along(axes, record.checkpoints)
    agreed = [each.correlation for each in points]
    _band(axes, at, [(each.low, each.high) for each in agreed], COLOURS[0])
    _line(axes, at, [each.rho for each in agreed], 0, "with the last")
    _line(axes, at, [each.across_halves for each in points], 1, "on the other half")
    axes.axhline(
        points[-1].across_halves, color=MUTED, linestyle="--", linewidth=0.8, label="ceiling"
    )
    axes.set_ylim(min(0, axes.get_ylim()[0]), 1.02)


def _prunable(axes: Axes, record: FollowRecord) -> None:
    points, at = record.checkpoints, _along(axes, record.checkpoints)
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


def _confidence(axes: Axes, record: FollowRecord) -> None:
    points, at = record.checkpoints, _along(axes, record.checkpoints)
    _band(axes, at, [(each.confidence_low, each.confidence_high) for each in points], COLOURS[0])
    _line(axes, at, [each.confidence for each in points], 0)
    axes.set_ylim(0, 1.02)


def _count_lines(field: str, axes: Axes, record: FollowRecord) -> None:
    points, at = record.checkpoints, _along(axes, record.checkpoints)
    names = sorted({name for point in points for name in getattr(point, field)})
    for number, name in enumerate(names):
        found = [float(getattr(point, field).get(name, 0)) for point in points]
        _line(axes, at, found, number, name)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))


def _score(axes: Axes, record: FollowRecord) -> None:
    points, at = record.checkpoints, _along(axes, record.checkpoints)
    _line(axes, at, [each.score for each in points], 0)


SETTLED = 0.9
"""Share of the ceiling from which on importance counts as settled."""


def followed_notes(followed: Followed) -> tuple[Note, ...]:
    """What is followed along a training."""
    del followed
    return (
        Note(
            "Heads along a training",
            "Importance, roles and prunability of all heads at checkpoints of one training.",
            f"{MICHEL}, section 6",
        ),
    )


def followed_document(followed: Followed) -> Document:
    """The findings, the checkpoints and their figures."""
    record = followed.record
    headers = [
        *("checkpoint", "loss", record.metric, "rank correlation with the last, 95 % interval"),
        *("on the other half", "prunable, 95 % interval", "confidence", "roles", "tendencies"),
    ]
    rows = [
        [
            point.name if point.step is None else f"step {point.step:,}",
            f"{point.loss:.3f}",
            f"{point.score:.2f}",
            str(point.correlation),
            correlation(point.across_halves),
            f"{point.prunable:.2f}, {point.prunable_low:.2f} to {point.prunable_high:.2f}",
            f"{point.confidence:.2f}",
            _counts(point.roles),
            _counts(point.tendencies),
        ]
        for point in record.checkpoints
    ]
    return Document(
        "Heads along a training",
        (
            Text(
                f"{amount(record.num_examples, 'example')} of {record.task}; importance by "
                f"{record.method}."
            ),
            Text(" ".join(record.sentences), "lede"),
            Table.of(headers, rows, "The checkpoints"),
            *following_charts(record),
        ),
    )


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items())


def settled(points: Sequence[FollowedCheckpoint]) -> int | None:
    """The first checkpoint from which on importance agrees with the last as far as noise allows.

    Almost: on the other half of the data, it has 90 % of the agreement of the halves at the last.
    None if the halves of the last checkpoint do not agree at all.
    """
    ceiling = points[-1].across_halves
    if not ceiling > 0:  # NaN too
        return None
    place = len(points) - 1
    while place and points[place - 1].across_halves >= SETTLED * ceiling:
        place -= 1
    return place


def sentences_of(points: Sequence[FollowedCheckpoint], within: float) -> Iterator[str]:
    """The findings: importance, prunability, confidence and roles."""
    first, last = points[0], points[-1]
    place = settled(points)
    if place is None:
        yield (
            "The two halves of the data do not rank heads alike at the last checkpoint (rho "
            f"{correlation(last.across_halves)}), so nothing can be said about when importance is "
            "determined. Give more data."
        )
    else:
        here = points[place]
        when = "at no checkpoint before" if here is last else f"from {_name(here, last)} on"
        rho, ceiling, untrained = (correlation(each.across_halves) for each in (here, last, first))
        yield (
            f"Importance ranks heads as at the end {when}: rho {rho} on the other half of the "
            f"data, where the ceiling is {ceiling}. At {_name(first, last)} it is {untrained}."
        )
    lowest = min(points, key=lambda point: point.prunable)
    yield (
        f"Of the heads, {percent(first.prunable)} can be pruned at {_name(first, last)} with the "
        "loss "
        f"at most {100 * within:g} % higher, {percent(last.prunable)} at the end, and fewest "
        f"({percent(lowest.prunable)}) at {_name(lowest, last)}."
    )
    yield (
        f"Mean confidence changes from {first.confidence:.2f} to {last.confidence:.2f}; heads with "
        f"roles from {_counts(first.roles) or 'none'} to {_counts(last.roles) or 'none'}."
    )


def _name(point: FollowedCheckpoint, last: FollowedCheckpoint) -> str:
    if point.step is None:
        return point.name
    share = point.step / last.step if last.step else math.nan
    return f"step {point.step:,} ({percent(share)} of the training)" if last.step else point.name
