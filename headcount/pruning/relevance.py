"""Relevance: heads that speak least for what the model says go first.

Reference: Analyzing Multi-Head Self-Attention (Voita et al., 2019), section 4, https://arxiv.org/abs/1905.09418
The scores: importance/relevance.py.
Departure: the paper looks at relevance but prunes by gates; as an order of pruning it is ours.
"""

from dataclasses import dataclass
from typing import ClassVar, final

from headcount.importance.lrp_rule_sets import Rules
from headcount.importance.relevance import relevance
from headcount.pruning.method import Ranking, Setting
from headcount.pruning.order import Order
from headcount.pruning.stepwise import stepwise


@final
@dataclass(frozen=True)
class Relevance(Ranking):
    """Ascending relevance: a head that speaks against what the model says goes before all."""

    name: ClassVar[str] = "relevance"
    step: float = 1.0
    """Share of the heads that go before relevance is taken anew."""
    rules: Rules = "voita2019"
    """Of propagation."""

    def order(self, setting: Setting) -> Order:
        """Heads that may go, the least relevant first."""
        loaded, max_tokens = setting.loaded, setting.max_tokens
        return stepwise(
            setting,
            repr(self),
            lambda left: (
                relevance(
                    loaded.model, setting.train, self.rules, loaded.anatomy, max_tokens
                ).scores
            ),
            self.step,
        )
