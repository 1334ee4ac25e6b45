"""Findings: what the checkpoints say together, in sentences."""

import math
from collections.abc import Iterator, Mapping, Sequence

from headcount.papers.following.record import FollowedCheckpoint

SETTLED = 0.9
"""Share of the ceiling from which on importance counts as settled."""


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
        f"roles from {_named(first.roles)} to {_named(last.roles)}."
    )


def _name(point: FollowedCheckpoint, last: FollowedCheckpoint) -> str:
    if point.step is None:
        return point.name
    share = point.step / last.step if last.step else math.nan
    return f"step {point.step:,} ({share:.0%} of the training)" if last.step else point.name


def _named(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items()) or "none"
