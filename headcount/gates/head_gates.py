"""Head gates: the interface of gates that take part in training, and gates that never change.

A layout says which heads share a gate; quotas say how many heads end up open.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, distributed, nn

from headcount.core import SITES, Head, Heads, InputError, LayerId, ModelError, sorted_by
from headcount.tap import Gates


@final
@dataclass(frozen=True)
class Layout:
    """One gate for every unit: a head, or heads that share keys and values.

    >>> heads = Heads({"encoder.self": (2, 1)})
    >>> gates = Layout.each(heads).spread(torch.tensor([0.0, 0.5, 1.0]))
    >>> gates[LayerId("encoder.self", 0)].tolist(), gates[LayerId("encoder.self", 1)].tolist()
    ([0.0, 0.5], [1.0])
    """

    heads: Heads
    """All heads of the model; heads in no unit have no gate."""
    units: tuple[tuple[Head, ...], ...]
    """Heads that share a gate."""

    @classmethod
    def each(cls, heads: Heads) -> "Layout":
        """A gate for every head."""
        return cls(heads, tuple((head,) for head in heads))

    @cached_property
    def size_U(self) -> Float[Tensor, " unit"]:
        """Number of heads in each unit."""
        return torch.tensor([float(len(unit)) for unit in self.units])

    def spread(self, gate_U: Float[Tensor, " unit"]) -> Gates:
        """The gates of the heads: 1 for heads in no unit; layers without units are left out."""
        gate_U = torch.cat([gate_U, gate_U.new_ones(1)])
        return {place: gate_U[unit_H.to(gate_U.device)] for place, unit_H in self._unit_of.items()}

    def is_at(self, site: str | None) -> Bool[Tensor, " unit"]:
        """Whether each unit belongs to a site; all do if it is None."""
        return torch.tensor([site in (None, unit[0].site) for unit in self.units])

    def by_site(self, number_U: Float[Tensor, " unit"]) -> dict[str, float]:
        """Sums over heads for every site that has units."""
        number_U = (number_U.detach().cpu() * self.size_U).double()
        sites = [site for site in SITES if bool(self.is_at(site).any())]
        return {site: float(number_U[self.is_at(site)].sum()) for site in sites}

    def check_finite(self, number_U: Float[Tensor, " unit"], what: str) -> None:
        """Check that all numbers are finite.

        Raises:
            ModelError: if a number is NaN or infinite; the error names its first head.
        """
        is_finite_U = number_U.isfinite().tolist()
        if not all(is_finite_U):
            first = is_finite_U.index(False)
            raise ModelError(
                f"Expected a finite {what} for every gate, got {float(number_U[first])} for "
                f"{self.units[first][0]}. Lower the learning rate of the gates, or look for "
                "losses that are not finite."
            )

    @cached_property
    def _unit_of(self) -> dict[LayerId, Tensor]:
        """Unit number of every head in layers with units; one past the last for heads in none."""
        unit_of = {head: number for number, unit in enumerate(self.units) for head in unit}
        places = dict.fromkeys(head.layer_id for unit in self.units for head in unit)
        return {
            LayerId(site, layer): torch.tensor(
                [
                    unit_of.get(Head(site, layer, index), len(self.units))
                    for index in range(self.heads.counts[site][layer])
                ]
            )
            for site, layer in places
        }


class HeadGates(nn.Module, ABC):
    """A module that holds the gates' parameters.

    Its state is saved in checkpoints and is all that a resumed training needs, including the
    position in the sequence of noise.
    """

    @abstractmethod
    def forward(self) -> Gates:
        """The gates of one batch: drawn in training mode, deterministic in evaluation mode.

        Raises:
            ModelError: if a gate is not a finite number; the error names the head.
        """

    def penalty(self) -> Float[Tensor, ""]:
        """Penalty added to the loss (nats, or the loss's own unit); 0 by default."""
        return torch.zeros(())

    @abstractmethod
    def advance(self, share: int | float) -> None:
        """Set schedules before a step, given the share of the training that is done."""

    @abstractmethod
    def settle(self) -> None:
        """After a step, update what the optimizer does not."""

    def numbers(self) -> dict[str, float]:
        """Numbers about the gates for the training log; none by default."""
        return {}


class LearnedGates(HeadGates):
    """Gates whose scores decide which heads are kept."""

    layout: Layout
    """Which heads share a gate."""

    @abstractmethod
    def scores(self) -> Float[Tensor, " unit"]:
        """Score of every gate; the gates with the highest scores are kept."""


def uniform_noise(
    seed: int, num_draws: Tensor, size: int, eps: float
) -> Float[np.ndarray, " unit"]:
    """Uniform numbers between eps and 1 - eps, different in each draw and each process.

    The n-th draw of process r of P is draw P n + r. So P processes draw the same noise as one
    process that accumulates the gradients of P batches.
    """
    joined = distributed.is_available() and distributed.is_initialized()
    rank, world = (distributed.get_rank(), distributed.get_world_size()) if joined else (0, 1)
    generator = np.random.default_rng((seed, int(num_draws) * world + rank))
    return generator.uniform(eps, 1 - eps, size)


@final
class Fixed(HeadGates):
    """The same gates for every batch, e.g. those of a plan.

    Args:
        gates: one factor per head, by site and layer; other layers are not gated.

    Raises:
        ModelError: if a gate is not a finite number.
    """

    def __init__(self, gates: Gates) -> None:
        super().__init__()
        self._places = tuple(gates)
        for number, ((site, layer), gate_H) in enumerate(gates.items()):
            if not gate_H.isfinite().all():
                raise ModelError(
                    f"Expected finite gates, got {gate_H.tolist()} for layer {layer} of {site}. "
                    "Correct these values."
                )
            self.register_buffer(f"gate_{number}", gate_H.detach().clone(), persistent=False)

    def forward(self) -> Gates:
        """The given gates."""
        return {place: self.get_buffer(f"gate_{n}") for n, place in enumerate(self._places)}

    def advance(self, share: int | float) -> None:
        """Do nothing: fixed gates have no schedule."""

    def settle(self) -> None:
        """Do nothing: fixed gates do not move."""


@final
@dataclass(frozen=True)
class Quota:
    """The number of heads that end up open at one site or in all."""

    site: str | None
    """Site of the units; None for all sites."""
    heads: int
    """Number of open heads in these units."""


def check_quotas(layout: Layout, found: Sequence[Quota]) -> None:
    """Check that quotas can be met together.

    Raises:
        InputError: if a quota has no units, asks for more heads than its units have, or shares
            units with another quota.
    """
    taken_U = torch.zeros(len(layout.units), dtype=torch.bool)
    for quota in found:
        is_member_U, where = layout.is_at(quota.site), quota.site or "any site"
        free = int(layout.size_U[is_member_U].sum())
        if not 0 <= quota.heads <= free or not is_member_U.any():
            sites = ", ".join(dict.fromkeys(unit[0].site for unit in layout.units))
            raise InputError(
                f"Expected a quota of gated heads, got {quota.heads} at {where}, where {free} "
                f"have gates. Gates are at {sites or 'no site'}."
            )
        if (taken_U & is_member_U).any():
            raise InputError(
                f"Expected one quota for every gate, got two at {where}. Give one quota for all "
                "heads, or one for each site."
            )
        taken_U |= is_member_U


def highest(
    layout: Layout, score_U: Float[Tensor, " unit"], found: Sequence[Quota]
) -> Float[Tensor, " unit"]:
    """Gates of 1 for each quota's units with the highest scores; ties keep the last unit.

    Units without a quota have 1 too. Where sizes differ, a unit too large to prune is kept.
    """
    score, size = score_U.tolist(), layout.size_U.tolist()
    gate_U = torch.ones_like(score_U)
    for quota in found:
        members = layout.is_at(quota.site).nonzero()[:, 0].tolist()
        going = sum(size[unit] for unit in members) - quota.heads
        for unit in sorted_by(members, score.__getitem__):
            if size[unit] <= going:
                gate_U[unit] = 0
                going -= size[unit]
    return gate_U


def quotas(layout: Layout, budget: Sequence[tuple[str | None, int]]) -> tuple[Quota, ...]:
    """Quotas of the gated heads for a budget that counts all heads, gated or not.

    Args:
        layout: which heads have gates.
        budget: number of heads to keep at a site, or in all (None).
    """
    found = []
    for site, number in budget:
        total = len(layout.heads) if site is None else sum(layout.heads.counts[site])
        free = int(layout.size_U[layout.is_at(site)].sum())
        found.append(Quota(site, number - (total - free)))
    return tuple(found)
