"""By score: heads are pruned in ascending order of their importance (`importance/options.py`).

Random: heads are pruned in a random order, which every other method should beat.

Several seeds give a mean and a range. No data is used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, make_dataclass
from random import Random as Chance
from typing import final

from headcount.importance import SCORES, Scores, score_of
from headcount.pruning.budget import Keep, Unit
from headcount.pruning.context import PruningContext
from headcount.pruning.methods.method import Order, Ranking
from headcount.pruning.methods.stepwise import Stepwise
from headcount.pruning.options import METHOD_OPTIONS, MethodOptions, RandomOptions


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
class ByScore(Stepwise):
    """Prunes in ascending order of a score, which is measured again after every step."""

    def scores(self, context: PruningContext, left: Sequence[Unit]) -> Scores:
        """The score of every head, while pruned heads are gated to 0."""
        score = score_of(self.name, self)
        found = score.of(context.loaded, context.scored(self.name), context.max_tokens)
        pruned = [head for unit in {*context.units.units} - {*left} for head in unit]
        return score.without(found, pruned)


def _by_score(options: type[MethodOptions]) -> type[ByScore]:
    """The method that has the options of a score and a step."""
    name = options.__name__.removesuffix("Options")
    about = {"__module__": __name__, "__doc__": ByScore.__doc__}
    return make_dataclass(name, (), bases=(options, ByScore), namespace=about, frozen=True)


BY_SCORE: Mapping[str, type[ByScore]] = {name: _by_score(METHOD_OPTIONS[name]) for name in SCORES}
"""The method of every score, by its name."""
