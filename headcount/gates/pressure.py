r"""Pressure: what shuts Hard Concrete gates.

- `Constant`: lambda times the expected number of open heads. Which number comes out is not known
  beforehand: lambda is swept.
- `Lagrangian`: multipliers that grow as long as more heads are open than a target, and shrink
  below it, so that one training ends near the target:

$$\max_{\lambda, \phi \ge 0} \min_a\; L + \sum_g \lambda_g e_g + \phi_g e_g^2, \qquad
e_g = \frac{1}{n_g} \Big( \sum_{h \in g} P(g_h > 0) - t_g \Big)$$

n is the number of heads of a quota; the target t falls linearly from n to the quota over the first
part of the training.

References: Louizos et al. (2018), equation 3; Structured Pruning of Large Language Models (Wang et
al., 2020), section 3.2, https://arxiv.org/abs/1910.04732
Departure: lambda and phi, which differ by quota, climb the plain gradient, without an optimizer of
their own.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headcount.gates.layout import Layout, Quota


class Pressure(nn.Module, ABC):
    """Makes a penalty of the probabilities that gates are open."""

    @abstractmethod
    def forward(self, open_U: Float[Tensor, " unit"]) -> Float[Tensor, ""]:
        """What joins the loss."""

    @abstractmethod
    def advance(self, share: int | float) -> None:
        """Before a step, when so large a share of the training is done."""

    @abstractmethod
    def settle(self, open_U: Float[Tensor, " unit"]) -> None:
        """After a step."""


@final
class Constant(Pressure):
    """A coefficient times the expected number of open heads.

    Args:
        layout: which heads share a gate.
        coefficient: in the loss's unit (nats a token) a head.
    """

    def __init__(self, layout: Layout, coefficient: int | float) -> None:
        super().__init__()
        self._layout, self.coefficient = layout, coefficient

    def forward(self, open_U: Float[Tensor, " unit"]) -> Float[Tensor, ""]:
        """Summed over heads."""
        return self.coefficient * (open_U * self._layout.size_U.to(open_U)).sum()

    def advance(self, share: int | float) -> None:
        """Nothing to set."""

    def settle(self, open_U: Float[Tensor, " unit"]) -> None:
        """Nothing to turn."""


@final
class Lagrangian(Pressure):
    """Multipliers that bring the expected number of open heads to its quota.

    Args:
        layout: which heads share a gate.
        quotas: how many are to be open, and of which.
        rate: of the multipliers' ascent, in the loss's unit a step.
        falling: share of the training over which the target falls to the quota.
    """

    def __init__(
        self,
        layout: Layout,
        quotas: Sequence[Quota],
        rate: int | float = 0.3,
        falling: int | float = 0.5,
    ) -> None:
        super().__init__()
        self.rate, self.falling = rate, falling
        of_quota = [layout.is_at(quota.site) * layout.size_U for quota in quotas]
        self._size_GU = torch.stack(of_quota)
        self._quota_G = torch.tensor([float(quota.heads) for quota in quotas])
        self._share = 0.0
        self.register_buffer("multiplier_KG", torch.zeros(2, len(quotas)))

    @property
    def target_G(self) -> Float[Tensor, " quota"]:
        """Heads that may be open by now."""
        all_G = self._size_GU.sum(1)
        return all_G + min(1.0, self._share / self.falling) * (self._quota_G - all_G)

    def forward(self, open_U: Float[Tensor, " unit"]) -> Float[Tensor, ""]:
        """The multipliers times what is open too much, and its square."""
        assert isinstance(self.multiplier_KG, Tensor)
        excess_G = self._excess(open_U)
        return (self.multiplier_KG * torch.stack([excess_G, excess_G.square()])).sum()

    def advance(self, share: int | float) -> None:
        """Lower the target."""
        self._share = share

    def settle(self, open_U: Float[Tensor, " unit"]) -> None:
        """Climb by the gradient of the multipliers."""
        assert isinstance(self.multiplier_KG, Tensor)
        excess_G = self._excess(open_U)
        self.multiplier_KG += self.rate * torch.stack([excess_G, excess_G.square()])

    def _excess(self, open_U: Float[Tensor, " unit"]) -> Float[Tensor, " quota"]:
        size_GU = self._size_GU.to(open_U)
        return (size_GU @ open_U - self.target_G.to(open_U)) / size_GU.sum(1)
