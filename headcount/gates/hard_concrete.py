r"""Hard Concrete: gates that are exactly 0 or 1 with some probability, yet have gradients.

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
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headcount.core import Gates, check_choice
from headcount.gates.head_gates import Layout, LearnedGates, uniform_noise
from headcount.gates.penalties import Penalty

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
