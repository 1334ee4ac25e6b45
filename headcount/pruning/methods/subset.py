"""Subset: train a relaxed subset of exactly K heads, then keep the K best.

`FinetuneConfig(trained="all")` trains the weights too (joint); `trained="gates"` trains the choice
alone (pipelined).

Reference: Differentiable Subset Pruning of Transformer Heads (Li et al., 2021), section 4,
https://arxiv.org/abs/2108.04657
"""

from dataclasses import dataclass, replace
from typing import final

from headcount.gates import Layout, quotas
from headcount.gates import Subset as SubsetGates
from headcount.pruning.budget import Keep, by_site
from headcount.pruning.context import PruningContext
from headcount.pruning.methods.learned import learned
from headcount.pruning.methods.method import Method, Selection
from headcount.pruning.options import SubsetOptions


@final
@dataclass(frozen=True)
class Subset(SubsetOptions, Method):
    """Learns a subset of exactly as many heads as the budget keeps."""

    def choose(self, context: PruningContext, keep: Keep) -> Selection:
        """Train with gates, then keep the heads with the highest scores."""
        context = replace(context, units=context.units.tied())
        budget = tuple(by_site(context.units, keep).items())
        layout = Layout(context.units.heads, context.units.named(keep).units)
        gates = SubsetGates(
            layout,
            quotas(layout, budget),
            seed=context.seed,
            temperatures=(self.hot, self.cold),
            straight_through=self.straight_through,
            softmax_gradient=self.softmax_gradient,
        )
        return learned(context, keep, gates, self.tuning, self)
