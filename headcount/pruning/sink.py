"""Sink: heads that leave most of their attention on the first token go first.

Reference: Garbage Attention in Large Language Models (Sok et al., 2026), https://arxiv.org/abs/2601.06787
The scores: importance/sink.py. No labels are used.
"""

from dataclasses import dataclass
from typing import ClassVar, final

from headcount.importance.sink import sink
from headcount.pruning.method import Ranking, Setting
from headcount.pruning.order import Order
from headcount.pruning.stepwise import stepwise


@final
@dataclass(frozen=True)
class Sink(Ranking):
    """Descending attention on the first token."""

    name: ClassVar[str] = "sink"
    step: float = 1.0
    """Share of the heads that go before attention is measured anew."""

    def order(self, setting: Setting) -> Order:
        """Heads that may go, the idlest first."""
        loaded, max_tokens = setting.loaded, setting.max_tokens
        return stepwise(
            setting,
            repr(self),
            lambda left: sink(loaded.model, setting.train, loaded.anatomy, max_tokens),
            self.step,
        )
