"""Ranked: a ranking as a method, which prunes exactly as many of its first heads as needed."""

from dataclasses import dataclass
from typing import final

from headcount.pruning.budget import Keep, by_site, leaving
from headcount.pruning.method import Choice, Method, Ranking, Setting
from headcount.pruning.plan import Plan


@final
@dataclass(frozen=True)
class Ranked(Method):
    """Cuts a ranking's order at the budget; the model's weights are not changed."""

    ranking: Ranking

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Name of the ranking."""
        return self.ranking.name

    def choose(self, setting: Setting, keep: Keep) -> Choice:
        """Keep the last heads of the order; an impossible budget raises an error before ranking."""
        by_site(setting.units, keep)
        order, heads = self.ranking.order(setting, keep), setting.units.heads
        stay = set(heads) - set(leaving(order.heads, setting.units, keep))
        plan = Plan.made_for(setting.loaded, stay)
        scores = {str(head): score for head, score in order.scores.items()}
        return Choice(plan, setting.loaded, {"scores": scores})
