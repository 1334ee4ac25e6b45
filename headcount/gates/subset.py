r"""Subset: gates that add up to exactly K, drawn without replacement, and learned.

$$r_h = w_h + \mathrm{Gumbel}, \qquad p^{(k)} = \mathrm{softmax}(r / \tau), \qquad
r \leftarrow r + \log(1 - p^{(k)}), \qquad g = \sum_{k=1}^{K} p^{(k)}$$

The temperature tau falls log-linearly; at its end the gates are 0 or 1. Evaluation: the K gates
with the largest w are 1, the others 0. `straight_through` draws nothing: gates are those of
evaluation, with the gradient of the sum of softmaxes of w.

Reference: Differentiable Subset Pruning of Transformer Heads (Li et al., 2021), section 4,
https://arxiv.org/abs/2108.04657
Departure: gates below 1e-12 count as 0, with the gradient that they have.
"""

import math
from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from headcount.errors import UnsuitedError
from headcount.gates.head_gates import LearnedGates, uniform_noise
from headcount.gates.layout import Layout
from headcount.gates.quota import Quota, highest, refuse_quotas
from headcount.tap import Gates

EPS = 1e-12
"""Smallest uniform number that a Gumbel number is made of."""

DUST = 1e-12
"""Gates below this are 0 in the forward pass: what they are multiplied with becomes denormal
numbers, which processors take many times as long for."""


@final
class Subset(LearnedGates):
    """Gates of which K are open.

    Args:
        layout: which heads share a gate.
        quotas: how many heads are to be open, and of which; other gates are 1.
        seed: of the noise.
        hot: temperature at the start.
        cold: temperature at the end.
        straight_through: draw nothing.

    Raises:
        InputError: if units of one quota differ in size, can't add up to it, or quotas can't be met
            together.
    """

    def __init__(
        self,
        layout: Layout,
        quotas: Sequence[Quota],
        seed: int = 0,
        hot: int | float = 10.0,
        cold: int | float = 1e-8,
        straight_through: bool = False,
    ) -> None:
        super().__init__()
        self.layout, self.seed, self.straight_through = layout, seed, straight_through
        self.hot, self.cold, self.temperature = hot, cold, hot
        refuse_quotas(layout, quotas)
        self._quotas = tuple(quotas)
        self._members = [(layout.is_at(quota.site), _units(layout, quota)) for quota in quotas]
        self.w = nn.Parameter(torch.zeros(len(layout.units)))
        self.register_buffer("num_draws", torch.zeros((), dtype=torch.int64))

    def forward(self) -> Gates:
        """Gates of one batch; a draw in training mode."""
        self.layout.refuse_not_finite(self.w.detach(), "w")
        if not self.training:
            return self.layout.spread(self.chosen())
        return self.layout.spread(self.turned() if self.straight_through else self.drawn())

    def drawn(self) -> Float[Tensor, " unit"]:
        """A relaxed subset, with noise of its own."""
        assert isinstance(self.num_draws, Tensor)
        noise_U = uniform_noise(self.seed, self.num_draws, len(self.w), EPS)
        self.num_draws += 1
        gumbel_U = torch.from_numpy(-np.log(-np.log(noise_U))).to(self.w)
        return self._relaxed(self.w + gumbel_U)

    def turned(self) -> Float[Tensor, " unit"]:
        """The chosen gates, with the relaxed gates' gradient."""
        relaxed_U = self._relaxed(self.w)
        return self.chosen() + (relaxed_U - relaxed_U.detach())

    def chosen(self) -> Float[Tensor, " unit"]:
        """1 for the K units with the largest w of each quota, of equals the last."""
        return highest(self.layout, self.scores(), self._quotas)

    def scores(self) -> Float[Tensor, " unit"]:
        """W."""
        return self.w.detach()

    def penalty(self) -> Float[Tensor, ""]:
        """None: the number is exact as it is."""
        return self.w.new_zeros(())

    def advance(self, share: int | float) -> None:
        """Lower the temperature."""
        falling = math.log(self.cold / self.hot)
        self.temperature = self.hot * math.exp(min(1.0, share) * falling)

    def settle(self) -> None:
        """Nothing to turn."""

    def numbers(self) -> dict[str, float]:
        """Heads chosen by now, by site, and the temperature."""
        chosen = self.layout.by_site(self.chosen())
        return {"temperature": self.temperature} | {
            f"open {site}": number for site, number in chosen.items()
        }

    def _relaxed(self, r_U: Float[Tensor, " unit"]) -> Float[Tensor, " unit"]:
        gate_U = torch.ones_like(r_U)
        for is_member_U, number in self._members:
            member_M = is_member_U.nonzero()[:, 0].to(r_U.device)
            relaxed_M = relaxed_subset(r_U[member_M], number, self.temperature)
            gate_U = gate_U.index_put((member_M,), relaxed_M)
        dust_U = torch.where(gate_U < DUST, gate_U, 0).detach()
        return gate_U - dust_U  # with the gradient of all gates


def relaxed_subset(
    r_M: Float[Tensor, " member"], number: int, temperature: int | float
) -> Float[Tensor, " member"]:
    """So many softmaxes, each of what those before it left; they add up to the number."""
    gate_M = 0 * r_M  # also of no softmax there is a gradient
    tiny = torch.finfo(r_M.dtype).tiny
    for _ in range(number):
        p_M = (r_M / temperature).softmax(0)
        gate_M = gate_M + p_M
        r_M = r_M + (1 - p_M).clamp_min(tiny).log()
    return gate_M


def _units(layout: Layout, quota: Quota) -> int:
    """The number of units of a quota."""
    sizes = set(layout.size_U[layout.is_at(quota.site)].int().tolist())
    if len(sizes) != 1 or quota.heads % min(sizes):
        raise UnsuitedError(
            f"units of one size were expected that add up to {quota.heads} heads"
            f"{'' if quota.site is None else f' at {quota.site}'}; came sizes {sorted(sizes)}: "
            "give a budget for each site, or take the method l0"
        )
    return quota.heads // min(sizes)
