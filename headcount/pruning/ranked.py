"""Ranked: a ranking as a method: the heads that come first in its order go, exactly so many."""

from dataclasses import dataclass
from typing import final

from headcount.pruning.budget import Keep, by_site, leaving
from headcount.pruning.method import Choice, Method, Ranking, Setting
from headcount.pruning.plan import Plan


@final
@dataclass(frozen=True)
class Ranked(Method):
    """Cuts a ranking's order at the budget; the model's weights stay as they are."""

    ranking: Ranking

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The ranking's."""
        return self.ranking.name

    def choose(self, setting: Setting, keep: Keep) -> Choice:
        """Keep the last of the order; a budget that can't be met is refused before ranking."""
        by_site(setting.units, keep)
        order, heads = self.ranking.order(setting, keep), setting.units.heads
        stay = set(heads) - set(leaving(order.heads, setting.units, keep))
        plan = Plan.made_for(setting.loaded, stay)
        scores = {str(head): score for head, score in order.scores.items()}
        return Choice(plan, setting.loaded, {"scores": scores})
