"""Gradient: heads whose gates have the smallest loss gradient are pruned first.

Gradients are taken once, or again after every step. The paper's code takes steps of 0.1.

Reference: Are Sixteen Heads Really Better than One? (Michel et al., 2019), section 4.1, https://arxiv.org/abs/1905.10650
The scores: importance/gate_gradient.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from headcount.importance import Scores, gradient
from headcount.pruning.budget import Unit
from headcount.pruning.context import PruningContext
from headcount.pruning.methods.stepwise import Stepwise
from headcount.pruning.options import GradientOptions


@final
@dataclass(frozen=True)
class Gradient(GradientOptions, Stepwise):
    """Prunes in ascending order of gradient importance."""

    @property
    def depends_on_batches(self) -> bool:
        """Gradients that are summed over a batch depend on its size."""
        return self.level == "batch"

    def scores(self, context: PruningContext, left: Sequence[Unit]) -> Scores:
        """Gradient importance of every head."""
        loaded, max_tokens = context.loaded, context.max_tokens
        return gradient(
            loaded.model,
            context.scored(self.name),
            self.level,
            normalise=self.normalise,
            anatomy=loaded.anatomy,
            max_tokens=max_tokens,
        )
