"""Order: the order in which heads are pruned, and the score of each when it is pruned."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

from headcount.core import Head, UnsuitedError
from headcount.importance import Scores
from headcount.pruning.budget import Unit


@final
@dataclass(frozen=True)
class Order:
    """Heads that can be pruned, in the order of pruning."""

    heads: tuple[Head, ...]
    """Heads in the order of pruning; heads of a unit follow each other."""
    scores: Mapping[Head, float] = field(default_factory=dict)
    """Score of each head when it is pruned; higher means more important."""

    def then(self, following: "Order", heads: Sequence[Head]) -> "Order":
        """The order extended by some heads of another order, with their scores there."""
        scores = {head: following.scores[head] for head in heads}
        return Order((*self.heads, *heads), {**self.scores, **scores})


def ascending(units: Sequence[Unit], scores: Scores) -> Order:
    """The order by ascending mean score of the units' heads; ties keep the units' order.

    Raises:
        UnsuitedError: if a head has no score.
    """
    values = {head: float(scores[head.layer_id][head.index]) for unit in units for head in unit}
    if unknown := [str(head) for head, value in values.items() if math.isnan(value)]:
        raise UnsuitedError(
            f"Expected a score for every head that can be pruned, got none for {unknown[0]} and "
            f"{len(unknown) - 1} others. Use another method for this model."
        )
    return by_mean(units, values)


def by_mean(units: Sequence[Unit], values: Mapping[Head, float]) -> Order:
    """The order by ascending mean value of the units' heads; ties keep the units' order."""
    means = {unit: math.fsum(values[head] for head in unit) / len(unit) for unit in units}
    ordered = sorted(units, key=means.__getitem__)
    return Order(tuple(head for unit in ordered for head in unit), values)
