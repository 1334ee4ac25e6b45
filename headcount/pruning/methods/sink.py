"""Sink: heads that put most of their attention on the first token are pruned first.

Reference: Garbage Attention in Large Language Models (Sok et al., 2026), https://arxiv.org/abs/2601.06787
The scores: importance/norm_and_sink.py. No labels are used.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from headcount.importance import Scores, sink
from headcount.pruning.budget import Unit
from headcount.pruning.context import PruningContext
from headcount.pruning.methods.stepwise import Stepwise
from headcount.pruning.options import SinkOptions


@final
@dataclass(frozen=True)
class Sink(SinkOptions, Stepwise):
    """Prunes in descending order of attention on the first token."""

    def scores(self, context: PruningContext, left: Sequence[Unit]) -> Scores:
        """Negated attention on the first token, for every head."""
        loaded = context.loaded
        return sink(
            loaded.model,
            context.scored(self.name),
            loaded.anatomy,
            context.max_tokens,
        )
