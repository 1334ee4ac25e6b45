"""Quota: how many heads end up open, and which ones by their scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from headcount.core import InputError
from headcount.gates.head_gates import Layout


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
        for unit in sorted(members, key=score.__getitem__):
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
