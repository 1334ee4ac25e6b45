"""Relevance: heads that speak least for what the model says go first.

Reference: Analyzing Multi-Head Self-Attention (Voita et al., 2019), section 4, https://arxiv.org/abs/1905.09418
The scores: importance/relevance.py.
Departure: the paper looks at relevance but prunes by gates; as an order of pruning it is ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from headcount.importance.lrp_rule_sets import Rules
from headcount.importance.relevance import relevance
from headcount.importance.relevance_starts import start_of
from headcount.importance.scores import Scores
from headcount.pruning.budget import Unit
from headcount.pruning.method import Setting
from headcount.pruning.stepwise import Stepwise


@final
@dataclass(frozen=True)
class Relevance(Stepwise):
    """Ascending relevance: a head that speaks against what the model says goes before all."""

    name: ClassVar[str] = "relevance"
    rules: Rules = "voita2019"
    """Of propagation."""

    def scores(self, setting: Setting, left: Sequence[Unit]) -> Scores:
        """Relevance of the heads."""
        model, anatomy = setting.loaded.model, setting.loaded.anatomy
        start = start_of(setting.train)  # a sample is of no task's own type
        return relevance(
            model, setting.sample, self.rules, anatomy, setting.max_tokens, start
        ).scores
