r"""Penalties: what closes Hard Concrete gates.

- `L0Penalty`: lambda times the expected number of open heads is added to the loss. The number of
  heads that results is not known beforehand, so lambda is swept.
- `BudgetConstraint`: after each step the open probabilities move to the nearest ones (in
  Kullback-Leibler divergence) whose expected number of open heads is at most a target. The
  target falls linearly to the quota over the first part of the training:

$$\log a_h \leftarrow \log a_h + n_h \delta, \qquad
\sum_h n_h P(g_h > 0) = t, \qquad \delta \le 0$$

n is the number of heads of a gate; delta is found by bisection. While the bound is active, the
component of the loss's gradient across the bound is removed, so heads compete: gates of heads worth
more than the others open. Adam mostly sees the sign of a gradient, so it closes gates of heads
worth little as surely as those of harmful heads:

$$\frac{\partial L}{\partial \log a_h} + \lambda d_h, \qquad
d_h = \frac{\partial}{\partial \log a_h} n_h P(g_h > 0), \qquad
\lambda = \max\Big(0, -\frac{\sum_h d_h\, \partial L / \partial \log a_h}{\sum_h d_h^2}\Big)$$

So one training ends at the quota, whatever unit the loss has.

References: Louizos et al. (2018), equation 3; the constraint in place of a penalty comes from
Structured Pruning of Large Language Models (Wang et al., 2020), section 3.2,
https://arxiv.org/abs/1910.04732
Departure: Wang et al. raise a multiplier of the penalty until the constraint is met; its speed
depends on the loss's unit and on the number of steps. Here the multiplier is solved for in every
step, and the constraint is met after each step.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headcount.gates.head_gates import Layout, Quota, check_quotas, highest

WIDEST = 64.0
"""Largest shift that is tried, as an absolute value."""
HALVINGS = 60
SLACK = 1e-3
"""Share of the heads by which a bound may be missed and still count as active."""


class Penalty(ABC):
    """Closes gates, by a penalty or by moving them."""

    @abstractmethod
    def penalty(
        self, open_U: Float[Tensor, " unit"], slope_U: Float[Tensor, " unit"], share: int | float
    ) -> Float[Tensor, ""]:
        """The penalty that is added to the loss.

        Args:
            open_U: probabilities that gates are open.
            slope_U: gradient of the loss with respect to log a, so far.
            share: share of the training that is done.
        """

    @abstractmethod
    def shift(self, logit_U: Float[Tensor, " unit"], share: int | float) -> Float[Tensor, " unit"]:
        """The shift that is added to log a after a step.

        Args:
            logit_U: log-odds that gates are open.
            share: share of the training that is done.
        """

    @abstractmethod
    def chosen(self, score_U: Float[Tensor, " unit"]) -> Float[Tensor, " unit"] | None:
        """Gates of 1 and 0 with exactly the budget's heads open; None if there is no budget.

        Args:
            score_U: scores of the gates; the highest are kept.
        """


@final
class L0Penalty(Penalty):
    """A coefficient times the expected number of open heads.

    Args:
        layout: which heads share a gate.
        coefficient: penalty per head, in the loss's unit (nats a token).
    """

    def __init__(self, layout: Layout, coefficient: int | float) -> None:
        self._layout, self.coefficient = layout, coefficient

    def penalty(
        self, open_U: Float[Tensor, " unit"], slope_U: Float[Tensor, " unit"], share: int | float
    ) -> Float[Tensor, ""]:
        """The coefficient times the expected number of open heads."""
        return self.coefficient * (open_U * self._layout.size_U.to(open_U)).sum()

    def shift(self, logit_U: Float[Tensor, " unit"], share: int | float) -> Float[Tensor, " unit"]:
        """A shift of 0."""
        return torch.zeros_like(logit_U)

    def chosen(self, score_U: Float[Tensor, " unit"]) -> None:
        """None: each gate is rounded by itself."""


@final
class BudgetConstraint(Penalty):
    """An upper bound on the expected number of open heads, which falls to the quota.

    Args:
        layout: which heads share a gate.
        quotas: how many heads end up open, and from which units.
        falling: share of the training over which the bound falls from all heads to the quota.

    Raises:
        InputError: if the quotas can't be met together.
    """

    def __init__(self, layout: Layout, quotas: Sequence[Quota], falling: int | float = 0.5) -> None:
        check_quotas(layout, quotas)
        self._layout, self._quotas, self.falling = layout, tuple(quotas), falling

    def penalty(
        self, open_U: Float[Tensor, " unit"], slope_U: Float[Tensor, " unit"], share: int | float
    ) -> Float[Tensor, ""]:
        """The active bounds' multipliers times their expected numbers of open heads."""
        size_U, total = self._layout.size_U.to(open_U), open_U.new_zeros(())
        for is_member_U, bound in self._bounds(share):
            size_M, open_M = size_U[is_member_U], open_U[is_member_U]
            if float((size_M * open_M.detach()).sum()) < bound - SLACK * float(size_M.sum()):
                continue
            rise_M = (size_M * open_M * (1 - open_M)).detach()
            multiplier = -(slope_U[is_member_U] @ rise_M) / rise_M.square().sum()
            total = total + multiplier.clamp_min(0) * (size_M * open_M).sum()
        return total

    def shift(self, logit_U: Float[Tensor, " unit"], share: int | float) -> Float[Tensor, " unit"]:
        """The smallest shift that meets the bound."""
        size_U, shift_U = self._layout.size_U.to(logit_U), torch.zeros_like(logit_U)
        for is_member_U, bound in self._bounds(share):
            delta = _delta(
                logit_U[is_member_U].cpu().double(), size_U[is_member_U].cpu().double(), bound
            )
            shift_U[is_member_U] = delta * size_U[is_member_U]
        return shift_U

    def chosen(self, score_U: Float[Tensor, " unit"]) -> Float[Tensor, " unit"]:
        """Gates of 1 for as many heads as the quotas allow, from the first step on."""
        return highest(self._layout, score_U, self._quotas)

    def _bounds(self, share: int | float) -> Iterator[tuple[Bool[Tensor, " unit"], float]]:
        """The units of every quota, and how many of their heads may be open now."""
        for quota in self._quotas:
            is_member_U = self._layout.is_at(quota.site)
            free = float(self._layout.size_U[is_member_U].sum())
            yield is_member_U, free + min(1.0, share / self.falling) * (quota.heads - free)


def _delta(
    logit_M: Float[Tensor, " member"], size_M: Float[Tensor, " member"], bound: float
) -> float:
    """The largest delta up to 0 under which the expected number is at most the bound."""

    def expected(delta: float) -> float:
        return float((size_M * (logit_M + delta * size_M).sigmoid()).sum())

    if expected(0.0) <= bound:
        return 0.0
    low, high = -WIDEST, 0.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if expected(middle) <= bound else (low, middle)
    return low
