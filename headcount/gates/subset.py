r"""Subset: learned gates that add up to exactly K, drawn without replacement.

$$r_h = w_h + \mathrm{Gumbel}, \qquad p^{(k)} = \mathrm{softmax}(r / \tau), \qquad
r \leftarrow r + \log(1 - p^{(k)}), \qquad g = \sum_{k=1}^{K} p^{(k)}$$

The temperature tau falls log-linearly; at its end the gates are 0 or 1. In evaluation mode, the K
gates with the largest w are 1, the others 0. With `straight_through` nothing is drawn and nothing
has a temperature: the gates are those of evaluation mode, and each w gets the gradient of its gate.

Reference: Differentiable Subset Pruning of Transformer Heads (Li et al., 2021), section 4,
    https://arxiv.org/abs/2108.04657
Departure: gates below 1e-12 are set to 0 but keep their gradient. w starts at 0 (in the authors'
    code at small random numbers), and the temperature falls over the entire training (there over
    two thirds). It starts at 10 (there at 1000 for BERT and at 0.1 for translation, as in the
    preset `li2021`). With `softmax_gradient`, each w of straight-through gates gets the gradient of
    the sum of softmaxes of w instead, which is near 0 at low temperatures. That rule is ours.
"""

import math
from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from headcount.core import UnsuitedError, amount
from headcount.gates.head_gates import (
    Layout,
    LearnedGates,
    Quota,
    check_quotas,
    highest,
    uniform_noise,
)
from headcount.tap import Gates

EPS = 1e-12
"""Smallest uniform number from which a Gumbel number is made."""

DUST = 1e-12
"""Gates below this are 0 in the forward pass: multiplying by them gives denormal numbers, which
processors handle many times more slowly."""


@final
class Subset(LearnedGates):
    """Gates of which exactly K are open.

    Args:
        layout: which heads share a gate.
        quotas: how many heads are open, and from which units; other gates are 1.
        seed: seed of the noise.
        temperatures: temperature at the start and at the end.
        straight_through: use hard gates without noise, whose gradients are passed on as they are.
        softmax_gradient: with `straight_through`, pass on the gradient of relaxed gates instead.

    Raises:
        InputError: if units of one quota differ in size or can't add up to it, or quotas can't be
            met together.
    """

    def __init__(
        self,
        layout: Layout,
        quotas: Sequence[Quota],
        *,
        seed: int = 0,
        temperatures: tuple[int | float, int | float] = (10.0, 1e-8),
        straight_through: bool = False,
        softmax_gradient: bool = False,
    ) -> None:
        super().__init__()
        self.layout, self.seed, self.straight_through = layout, seed, straight_through
        self.softmax_gradient = softmax_gradient
        self.temperatures, self.temperature = temperatures, temperatures[0]
        check_quotas(layout, quotas)
        self._quotas = tuple(quotas)
        self._members = [(layout.is_at(quota.site), _units(layout, quota)) for quota in quotas]
        self.w = nn.Parameter(torch.zeros(len(layout.units)))
        self.register_buffer("num_draws", torch.zeros((), dtype=torch.int64))

    def forward(self) -> Gates:
        """Gates of one batch; drawn at random in training mode."""
        self.layout.check_finite(self.w.detach(), "w")
        if not self.training:
            return self.layout.spread(self.chosen())
        return self.layout.spread(self.turned() if self.straight_through else self.drawn())

    def drawn(self) -> Float[Tensor, " unit"]:
        """A relaxed subset, drawn with fresh noise."""
        assert isinstance(self.num_draws, Tensor)
        noise_U = uniform_noise(self.seed, self.num_draws, len(self.w), EPS)
        self.num_draws += 1
        gumbel_U = torch.from_numpy(-np.log(-np.log(noise_U))).to(self.w)
        return self._relaxed(self.w + gumbel_U)

    def turned(self) -> Float[Tensor, " unit"]:
        """The hard gates, with their own gradient or that of the relaxed gates."""
        source_U = self._relaxed(self.w) if self.softmax_gradient else self.w
        return self.chosen() + (source_U - source_U.detach())

    def chosen(self) -> Float[Tensor, " unit"]:
        """Gates of 1 for each quota's K units with the largest w; ties keep the last unit."""
        return highest(self.layout, self.scores(), self._quotas)

    def scores(self) -> Float[Tensor, " unit"]:
        """The learned w of every gate."""
        return self.w.detach()

    def penalty(self) -> Float[Tensor, ""]:
        """A penalty of 0, since the number of open heads is exact by construction."""
        return self.w.new_zeros(())

    def advance(self, share: int | float) -> None:
        """Lower the temperature."""
        hot, cold = self.temperatures
        self.temperature = hot * math.exp(min(1.0, share) * math.log(cold / hot))

    def settle(self) -> None:
        """Do nothing: no gates move outside the optimizer."""

    def numbers(self) -> dict[str, float]:
        """Number of heads chosen so far by site, and the temperature."""
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
        return gate_U - dust_U  # keeps the gradient of all gates


def relaxed_subset(
    r_M: Float[Tensor, " member"], number: int, temperature: int | float
) -> Float[Tensor, " member"]:
    """The sum of `number` softmaxes, each over what the previous ones left; it adds up to it."""
    gate_M = 0 * r_M  # has a gradient even if `number` is 0
    tiny = torch.finfo(r_M.dtype).tiny
    for _ in range(number):
        p_M = (r_M / temperature).softmax(0)
        gate_M = gate_M + p_M
        r_M = r_M + (1 - p_M).clamp_min(tiny).log()
    return gate_M


def _units(layout: Layout, quota: Quota) -> int:
    """Number of units that meet a quota."""
    sizes = set(layout.size_U[layout.is_at(quota.site)].int().tolist())
    if len(sizes) != 1 or quota.heads % min(sizes):
        raise UnsuitedError(
            f"Expected units of one size that add up to {amount(quota.heads, 'head')}"
            f"{'' if quota.site is None else f' at {quota.site}'}, got sizes {sorted(sizes)}. "
            "Give a budget for each site, or use the method l0."
        )
    return quota.heads // min(sizes)
