"""Gradient: heads at whose gate the loss is flattest go first; once, or anew after every step.

Reference: Are Sixteen Heads Really Better than One? (Michel et al., 2019), section 4.1, https://arxiv.org/abs/1905.10650
The scores: importance/gradient.py.
"""

from dataclasses import dataclass
from typing import ClassVar, final

from headcount.importance.gradient import Level, gradient
from headcount.pruning.method import Ranking, Setting
from headcount.pruning.order import Order
from headcount.pruning.stepwise import stepwise


@final
@dataclass(frozen=True)
class Gradient(Ranking):
    """Ascending gradient importance."""

    name: ClassVar[str] = "gradient"
    step: float = 1.0
    """Share of the heads that go before importance is estimated anew; 0.1 in the paper's code."""
    level: Level = "sample"
    """What the absolute value is taken of."""
    normalise: bool = True
    """Divide by the norm over the layer."""

    def order(self, setting: Setting) -> Order:
        """Heads that may go, the least important first."""
        loaded, max_tokens = setting.loaded, setting.max_tokens
        return stepwise(
            setting,
            repr(self),
            lambda left: gradient(
                loaded.model, setting.train, self.level, self.normalise, loaded.anatomy, max_tokens
            ),
            self.step,
        )
