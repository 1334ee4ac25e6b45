"""Sink: heads that put most of their attention on the first token are pruned first.

Reference: Garbage Attention in Large Language Models (Sok et al., 2026), https://arxiv.org/abs/2601.06787
The scores: importance/sink.py. No labels are used.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from headcount.importance.scores import Scores
from headcount.importance.sink import sink
from headcount.pruning.budget import Unit
from headcount.pruning.method import Setting
from headcount.pruning.stepwise import Stepwise


@final
@dataclass(frozen=True)
class Sink(Stepwise):
    """Prunes in descending order of attention on the first token."""

    name: ClassVar[str] = "sink"

    def scores(self, setting: Setting, left: Sequence[Unit]) -> Scores:
        """Negated attention on the first token, for every head."""
        loaded = setting.loaded
        return sink(loaded.model, setting.sample, loaded.anatomy, setting.max_tokens)
