"""By score: heads are pruned in ascending order of their importance (`importance/score.py`).

Random: heads are pruned in a random order, which every other method should beat.

Several seeds give a mean and a range. No data is used.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random as Chance
from typing import final

from headcount.importance import Score, Scores
from headcount.pruning.budget import Keep, Unit
from headcount.pruning.context import PruningContext
from headcount.pruning.methods.method import Order, Ranking
from headcount.pruning.methods.stepwise import Stepwise
from headcount.pruning.options import (
    FisherOptions,
    GradientOptions,
    NormOptions,
    RandomOptions,
    RelevanceOptions,
    SinkOptions,
)


@final
@dataclass(frozen=True)
class Random(RandomOptions, Ranking):
    """An order drawn with the context's seed; all orders of the units are equally likely."""

    def order(self, context: PruningContext, keep: Keep | None = None) -> Order:
        """The heads that can be pruned, in random order."""
        del keep  # all orders are equally likely
        units = list(context.units.units)
        Chance(context.seed).shuffle(units)
        return Order(tuple(head for unit in units for head in unit))


@dataclass(frozen=True)
class ByScore(Score, Stepwise):
    """Prunes in ascending order of a score, which is measured again after every step."""

    def scores(self, context: PruningContext, left: Sequence[Unit]) -> Scores:
        """The score of every head, while pruned heads are gated to 0."""
        found = self.of(context.loaded, context.scored(self.name), context.max_tokens)
        pruned = [head for unit in {*context.units.units} - {*left} for head in unit]
        return self.without(found, pruned)


@final
@dataclass(frozen=True)
class Gradient(GradientOptions, ByScore):
    """Prunes heads whose gates have the smallest loss gradient first.

    The paper's code takes steps of 0.1 (Michel et al., 2019, section 4).
    """


@final
@dataclass(frozen=True)
class Relevance(RelevanceOptions, ByScore):
    """Prunes heads that contribute least to the prediction first; those that oppose it lead."""


@final
@dataclass(frozen=True)
class Norm(NormOptions, ByScore):
    """Prunes heads that add the shortest vectors, relative to their layer, first."""


@final
@dataclass(frozen=True)
class Sink(SinkOptions, ByScore):
    """Prunes heads that put most of their attention on the first token first."""


@final
@dataclass(frozen=True)
class Fisher(FisherOptions, ByScore):
    """Prunes heads whose gates carry the least Fisher information first."""
