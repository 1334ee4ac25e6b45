"""Sink: heads that leave most of their attention on the first token go first.

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
    """Descending attention on the first token."""

    name: ClassVar[str] = "sink"

    def scores(self, setting: Setting, left: Sequence[Unit]) -> Scores:
        """Attention on the first token, negative."""
        loaded = setting.loaded
        return sink(loaded.model, setting.sample, loaded.anatomy, setting.max_tokens)
