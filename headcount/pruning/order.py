"""Order: in which order heads go, and the score that each had when it went."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

from headcount.errors import UnsuitedError
from headcount.heads import Head
from headcount.importance.scores import Scores
from headcount.pruning.budget import Unit


@final
@dataclass(frozen=True)
class Order:
    """Heads that may go, the first to go first."""

    heads: tuple[Head, ...]
    """In the order in which they go; those of a unit one after the other."""
    scores: Mapping[Head, float] = field(default_factory=dict)
    """What each was worth when it went; higher = more important."""

    def then(self, following: "Order", heads: Sequence[Head]) -> "Order":
        """Followed by some heads of another order, with the scores that they have there."""
        scores = {head: following.scores[head] for head in heads}
        return Order((*self.heads, *heads), {**self.scores, **scores})


def ascending(units: Sequence[Unit], scores: Scores) -> Order:
    """The order by ascending score; a unit has the mean of its heads'; equals in the grid's order.

    Raises:
        UnsuitedError: for a head without a score.
    """
    values = {head: float(scores[head.site, head.layer][head.index]) for unit in units
              for head in unit}  # fmt: skip
    if unknown := [str(head) for head, value in values.items() if math.isnan(value)]:
        raise UnsuitedError(
            f"a score was expected for every head that may go; {unknown[0]} and "
            f"{len(unknown) - 1} others have none: take another method for this model"
        )
    return by_mean(units, values)


def by_mean(units: Sequence[Unit], values: Mapping[Head, float]) -> Order:
    """The order by ascending mean of the units' heads; equals in the order in which they come."""
    means = {unit: math.fsum(values[head] for head in unit) / len(unit) for unit in units}
    ordered = sorted(units, key=means.__getitem__)
    return Order(tuple(head for unit in ordered for head in unit), values)
