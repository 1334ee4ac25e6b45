"""Random: heads are pruned in a random order, which every other method should beat.

Several seeds give a mean and a range. No data is used.
"""

from dataclasses import dataclass
from random import Random as Chance
from typing import final

from headcount.pruning.budget import Keep
from headcount.pruning.context import PruningContext
from headcount.pruning.methods.method import Order, Ranking
from headcount.pruning.options import RandomOptions


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
