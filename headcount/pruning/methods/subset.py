"""Subset: train a relaxed subset of exactly K heads, then keep the K best.

`FinetuneConfig(trained="all")` trains the weights too (joint); `trained="gates"` trains the choice
alone (pipelined).

Reference: Differentiable Subset Pruning of Transformer Heads (Li et al., 2021), section 4,
https://arxiv.org/abs/2108.04657
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar, final

from headcount.core import InputError
from headcount.gates import Layout, quotas
from headcount.gates import Subset as SubsetGates
from headcount.pruning.budget import Keep, by_site
from headcount.pruning.context import PruningContext
from headcount.pruning.methods.learned import learned
from headcount.pruning.methods.method import Method, Selection
from headcount.training import FinetuneConfig


@final
@dataclass(frozen=True)
class Subset(Method):
    """Learns a subset of exactly as many heads as the budget keeps."""

    name: ClassVar[str] = "subset"
    tuning: FinetuneConfig = field(default_factory=lambda: FinetuneConfig(gate_rate=0.3))
    """Settings of the training, and the learning rate of the scores."""
    hot: float = 10.0
    """Temperature at the start; the preset `li2021` has the paper's."""
    cold: float = 1e-8
    """Temperature at the end."""
    straight_through: bool = False
    """Whether training uses hard gates without noise, whose gradients are passed on as they are."""
    softmax_gradient: bool = False
    """Whether straight-through gates pass on the gradient of relaxed gates; a rule of our own."""

    def __post_init__(self) -> None:
        if not 0 < self.cold <= self.hot:
            raise InputError(
                f"Expected temperatures with 0 < cold <= hot, got cold {self.cold} and hot "
                f"{self.hot}."
            )
        if self.softmax_gradient and not self.straight_through:
            raise InputError(
                "softmax_gradient has no effect without straight_through. Set both, or neither."
            )

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
