r"""Hard Concrete: gates that are exactly 0 or 1 at times, yet have gradients; and what closes them.

$$s = \sigma\Big(\frac{\log u - \log(1 - u) + \log a_h}{\beta}\Big), \qquad
g_h = \min(1, \max(0, \gamma + (\zeta - \gamma) s)), \qquad u \sim U(\varepsilon, 1 - \varepsilon)$$

$$P(g_h > 0) = \sigma\Big(\log a_h - \beta \log \frac{-\gamma}{\zeta}\Big)$$

One u is drawn for each gate and batch. The penalty lowers the sum of P(g > 0) over heads.
In evaluation mode, `rounded` gates are 0 or 1, whichever is likelier; under a
`BudgetConstraint`, the likeliest heads that fit it have 1. `mean` gates are
clip(gamma + (zeta - gamma) sigmoid(log a), 0, 1), as in the code of the second paper's authors.

References: Learning Sparse Neural Networks through L0 Regularization (Louizos et al., 2018),
section 2.2, https://arxiv.org/abs/1712.01312; Analyzing Multi-Head Self-Attention (Voita et al.,
2019), section 6, https://arxiv.org/abs/1905.09418
Departure: gates start open (log a = 2, P(g > 0) = 0.94). `voita2019` uses the authors' start.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headcount.core import check_choice
from headcount.gates.head_gates import (
    Layout,
    LearnedGates,
    Quota,
    check_quotas,
    highest,
    uniform_noise,
)
from headcount.tap import Gates

WIDEST = 64.0
"""Largest shift that is tried, as an absolute value."""
HALVINGS = 60
SLACK = 1e-3
"""Share of the heads by which a bound may be missed and still count as active."""


class Penalty(ABC):
    r"""Closes gates, by a penalty or by moving them.

    - `L0Penalty`: lambda times the expected number of open heads is added to the loss. The number
      of heads that results is not known beforehand, so lambda is swept.
    - `BudgetConstraint`: after each step the open probabilities move to the nearest ones (in
      Kullback-Leibler divergence) whose expected number of open heads is at most a target. The
      target falls linearly to the quota over the first part of the training:

    $$\log a_h \leftarrow \log a_h + n_h \delta, \qquad
    \sum_h n_h P(g_h > 0) = t, \qquad \delta \le 0$$

    n is the number of heads of a gate; delta is found by bisection. While the bound is active, the
    component of the loss's gradient across the bound is removed, so heads compete: gates of heads
    worth more than the others open. Adam mostly sees the sign of a gradient, so it closes gates of
    heads worth little as surely as those of harmful heads:

    $$\frac{\partial L}{\partial \log a_h} + \lambda d_h, \qquad
    d_h = \frac{\partial}{\partial \log a_h} n_h P(g_h > 0), \qquad
    \lambda = \max\Big(0, -\frac{\sum_h d_h\, \partial L / \partial \log a_h}{\sum_h d_h^2}\Big)$$

    So one training ends at the quota, whatever unit the loss has.

    References: Louizos et al. (2018), equation 3; the constraint in place of a penalty comes from
    Structured Pruning of Large Language Models (Wang et al., 2020), section 3.2,
    https://arxiv.org/abs/1910.04732
    Departure: Wang et al. raise a multiplier of the penalty until the constraint is met; its speed
    depends on the loss's unit and on the number of steps. Here the multiplier is solved for in
    every step, and the constraint is met after each step.
    """

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


AtTest = Literal["rounded", "mean"]


@final
@dataclass(frozen=True)
class Stretched:
    """The distribution of a gate, apart from its log a."""

    beta: int | float = 0.33
    """Temperature."""
    stretch: tuple[int | float, int | float] = (-0.1, 1.1)
    """Gamma < 0 and zeta > 1."""
    eps: int | float = 1e-6
    """Smallest u and smallest P(g > 0)."""

    def at_most(
        self, log_a: Float[np.ndarray, " gate"], value: float
    ) -> Float[np.ndarray, " gate"]:
        """Probability that a drawn gate is at most a value from 0 to 1; for 1, that it is below 1.

        Reference: Louizos et al. (2018), equation 24 of appendix B.1, with the stretch inverted.

        >>> Stretched().at_most(np.array([0.0]), 0.5)
        array([0.5])
        """
        low, high = self.stretch
        inner = (value - low) / (high - low)
        logit = math.log(inner) - math.log1p(-inner)
        return 1 / (1 + np.exp(log_a - self.beta * logit))


@final
class HardConcrete(LearnedGates):
    """Gates with an L0 penalty.

    Args:
        layout: which heads share a gate.
        pressure: turns the probabilities that gates are open into a penalty.
        seed: seed of the noise.
        start: initial log a of every gate.
        shape: temperature and limits of the gates' distribution.
        evaluation: how gates are computed in evaluation mode.
    """

    def __init__(
        self,
        layout: Layout,
        pressure: Penalty,
        seed: int = 0,
        start: int | float = 2.0,
        shape: Stretched = Stretched(),  # noqa: B008 (it is frozen)
        evaluation: AtTest = "rounded",
    ) -> None:
        check_choice("an evaluation", evaluation, AtTest)
        super().__init__()
        self.layout, self.pressure, self.seed = layout, pressure, seed
        self.shape, self.evaluation = shape, evaluation
        self._closed = shape.beta * math.log(-shape.stretch[0] / shape.stretch[1])
        self._share: int | float = 0.0
        self.log_a = nn.Parameter(torch.full((len(layout.units),), float(start)))
        self.register_buffer("num_draws", torch.zeros((), dtype=torch.int64))

    @classmethod
    def voita2019(cls, layout: Layout, pressure: Penalty, seed: int = 0) -> "HardConcrete":
        """Gates that start near 1/2, from Glorot's uniform distribution over a layer's heads.

        With 8 heads, -0.61 < log a < 0.61. Evaluation uses the mean.
        """
        gates = cls(layout, pressure, seed, evaluation="mean")
        counts = layout.heads.counts
        limits = [math.sqrt(3 / counts[unit[0].site][unit[0].layer]) for unit in layout.units]
        noise_U = np.random.default_rng(seed).uniform(-1, 1, len(limits)) * limits
        gates.log_a.data = torch.from_numpy(noise_U).float()
        return gates

    def forward(self) -> Gates:
        """Gates of one batch; drawn at random in training mode."""
        self.layout.check_finite(self.log_a.detach(), "log a")
        if self.training:
            return self.layout.spread(self.drawn())
        return self.layout.spread(self.mean() if self.evaluation == "mean" else self.rounded())

    def drawn(self) -> Float[Tensor, " unit"]:
        """Gates drawn with independent noise."""
        assert isinstance(self.num_draws, Tensor)
        noise_U = uniform_noise(self.seed, self.num_draws, len(self.log_a), self.shape.eps)
        self.num_draws += 1
        logit_U = torch.from_numpy(np.log(noise_U) - np.log1p(-noise_U)).to(self.log_a)
        return self._stretched(((logit_U + self.log_a) / self.shape.beta).sigmoid())

    def mean(self) -> Float[Tensor, " unit"]:
        """The gates without noise and temperature."""
        return self._stretched(self.log_a.sigmoid())

    def rounded(self) -> Float[Tensor, " unit"]:
        """Gates of 0 and 1: as many 1s as a budget sets, otherwise the likelier value of each."""
        chosen_U = self.pressure.chosen(self.scores())
        return self.likelier().to(self.log_a) if chosen_U is None else chosen_U

    def likelier(self) -> Bool[Tensor, " unit"]:
        """Whether a gate is more likely 1 than 0."""
        low, high = self.shape.stretch
        is_one_U = (self.log_a - self.shape.beta * math.log((1 - low) / (high - 1))).sigmoid()
        return is_one_U > 1 - self.probability()

    def probability(self) -> Float[Tensor, " unit"]:
        """Probability that each gate is open: P(g > 0)."""
        open_U = (self.log_a - self._closed).sigmoid()
        return open_U.clamp(self.shape.eps, 1 - self.shape.eps)

    def scores(self) -> Float[Tensor, " unit"]:
        """Log a of every gate."""
        return self.log_a.detach()

    def penalty(self) -> Float[Tensor, ""]:
        """Penalty that the pressure puts on the probabilities, after the loss's backward pass."""
        slope_U = torch.zeros_like(self.log_a) if self.log_a.grad is None else self.log_a.grad
        return self.pressure.penalty(self.probability(), slope_U, self._share)

    def advance(self, share: int | float) -> None:
        """Store the share of training done, for the pressure."""
        self._share = share

    def settle(self) -> None:
        """Apply the pressure's shift to the gates."""
        logit_U = self.log_a.detach() - self._closed
        self.log_a.data += self.pressure.shift(logit_U, self._share)

    def numbers(self) -> dict[str, float]:
        """Expected number of open heads by site."""
        open_by_site = self.layout.by_site(self.probability())
        return {f"open {site}": round(number, 3) for site, number in open_by_site.items()}

    def _stretched(self, s_U: Float[Tensor, " unit"]) -> Float[Tensor, " unit"]:
        low, high = self.shape.stretch
        return (low + (high - low) * s_U).clamp(0, 1)
