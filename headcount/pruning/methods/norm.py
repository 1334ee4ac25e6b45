"""Norm: heads that add the shortest vectors to the residual stream, relative to their layer, first.

Reference: Identifying and Evaluating Inactive Heads in Pretrained LLMs (Sandoval-Segura et al., 2025), section 3, https://arxiv.org/abs/2504.03889
The scores: importance/norm_and_sink.py. No labels are used.
"""  # noqa: E501

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from headcount.importance import Scores, norm
from headcount.pruning.budget import Unit
from headcount.pruning.context import PruningContext
from headcount.pruning.methods.stepwise import Stepwise
from headcount.pruning.options import NormOptions


@final
@dataclass(frozen=True)
class Norm(NormOptions, Stepwise):
    """Prunes in ascending order of the layer-normalised norm of the heads' outputs."""

    def scores(self, context: PruningContext, left: Sequence[Unit]) -> Scores:
        """Layer-normalised norms of what the heads add; pruned heads add nothing."""
        loaded = context.loaded
        scores = norm(
            loaded.model,
            context.scored(self.name),
            loaded.anatomy,
            context.max_tokens,
        )
        added = {place: score_H.clone() for place, score_H in scores.items()}
        for unit in set(context.units.units) - set(left):
            for head in unit:
                added[head.layer_id][head.index] = 0
        return {place: score_H / added[place].mean() for place, score_H in scores.items()}
