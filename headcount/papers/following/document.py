"""The document of a training: findings, a table of the checkpoints, and figures."""

import math
from collections.abc import Iterator, Mapping, Sequence

from headcount.core import Document, Table, Text, amount
from headcount.papers.following.figures import following_charts
from headcount.papers.following.record import Followed, FollowedCheckpoint

SETTLED = 0.9
"""Share of the ceiling from which on importance counts as settled."""


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
            f"{point.across_halves:.2f}",
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
    ).ending(record.warnings, record.signature)


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
            f"{last.across_halves:.2f}), so nothing can be said about when importance is "
            "determined. Give more data."
        )
    else:
        here = points[place]
        when = "at no checkpoint before" if here is last else f"from {_name(here, last)} on"
        yield (
            f"Importance ranks heads as at the end {when}: rho {here.across_halves:.2f} on the "
            f"other half of the data, where the ceiling is {last.across_halves:.2f}. At "
            f"{_name(first, last)} it is {first.across_halves:.2f}."
        )
    lowest = min(points, key=lambda point: point.prunable)
    yield (
        f"Of the heads, {first.prunable:.0%} can be pruned at {_name(first, last)} with the loss "
        f"at most {100 * within:g} % higher, {last.prunable:.0%} at the end, and fewest "
        f"({lowest.prunable:.0%}) at {_name(lowest, last)}."
    )
    yield (
        f"Mean confidence changes from {first.confidence:.2f} to {last.confidence:.2f}; heads with "
        f"roles from {_counts(first.roles) or 'none'} to {_counts(last.roles) or 'none'}."
    )


def _name(point: FollowedCheckpoint, last: FollowedCheckpoint) -> str:
    if point.step is None:
        return point.name
    share = point.step / last.step if last.step else math.nan
    return f"step {point.step:,} ({share:.0%} of the training)" if last.step else point.name
