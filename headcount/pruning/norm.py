"""Norm: heads that add the shortest vectors to the residual stream, for their layer, go first.

Reference: Identifying and Evaluating Inactive Heads in Pretrained LLMs (Sandoval-Segura et al., 2025), section 3, https://arxiv.org/abs/2504.03889
The scores: importance/norm.py. No labels are used.
"""  # noqa: E501

from dataclasses import dataclass
from typing import ClassVar, final

from headcount.importance.norm import norm
from headcount.pruning.method import Ranking, Setting
from headcount.pruning.order import Order
from headcount.pruning.stepwise import stepwise


@final
@dataclass(frozen=True)
class Norm(Ranking):
    """Ascending layer-normalised norm of the heads' outputs."""

    name: ClassVar[str] = "norm"
    step: float = 1.0
    """Share of the heads that go before norms are taken anew."""

    def order(self, setting: Setting) -> Order:
        """Heads that may go, the quietest first."""
        loaded, max_tokens = setting.loaded, setting.max_tokens
        return stepwise(
            setting,
            repr(self),
            lambda left: norm(loaded.model, setting.train, loaded.anatomy, max_tokens),
            self.step,
        )
