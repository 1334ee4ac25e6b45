"""Relevance: heads that contribute least to the model's prediction are pruned first.

Reference: Analyzing Multi-Head Self-Attention (Voita et al., 2019), section 4, https://arxiv.org/abs/1905.09418
The scores: importance/lrp/relevance.py.
Departure: the paper studies relevance but prunes by gates; relevance as a pruning order is ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from headcount.importance import Scores, relevance, start_of
from headcount.pruning.budget import Unit
from headcount.pruning.context import PruningContext
from headcount.pruning.methods.stepwise import Stepwise
from headcount.pruning.options import RelevanceOptions


@final
@dataclass(frozen=True)
class Relevance(RelevanceOptions, Stepwise):
    """Prunes in ascending order of relevance; heads that oppose the prediction are first."""

    def scores(self, context: PruningContext, left: Sequence[Unit]) -> Scores:
        """Relevance of every head."""
        model, anatomy = context.loaded.model, context.loaded.anatomy
        sample = context.scored(self.name)
        return relevance(
            model,
            sample,
            self.rules,
            anatomy=anatomy,
            max_tokens=context.max_tokens,
            start=start_of(sample),
        ).scores
