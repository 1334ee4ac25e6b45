"""Quota: how many of some heads are to stay open, and which those are by their scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from headcount.errors import InputError
from headcount.gates.layout import Layout


@final
@dataclass(frozen=True)
class Quota:
    """How many of some heads are to stay open."""

    site: str | None
    """Units of one site; None for all."""
    heads: int
    """Of those in the units."""


def refuse_quotas(layout: Layout, found: Sequence[Quota]) -> None:
    """Let quotas pass that can be met together.

    Raises:
        InputError: for one of no unit, of more heads than its units have, or of units that another
            one is for.
    """
    taken_U = torch.zeros(len(layout.units), dtype=torch.bool)
    for quota in found:
        is_member_U, where = layout.is_at(quota.site), quota.site or "any site"
        free = int(layout.size_U[is_member_U].sum())
        if not 0 <= quota.heads <= free or not is_member_U.any():
            sites = ", ".join(dict.fromkeys(unit[0].site for unit in layout.units))
            raise InputError(
                f"a quota of heads that have gates was expected; came {quota.heads} of {where}, "
                f"where {free} have some: gates are at {sites or 'no site'}"
            )
        if (taken_U & is_member_U).any():
            raise InputError(
                f"one quota for every gate was expected; those of {where} have two: give one for "
                "all heads, or one for each site"
            )
        taken_U |= is_member_U


def highest(
    layout: Layout, score_U: Float[Tensor, " unit"], found: Sequence[Quota]
) -> Float[Tensor, " unit"]:
    """Gates of 1 for the units with the highest scores of each quota, of equals the last.

    Units of no quota have 1 too; where sizes differ, one that is too large to go stays.
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
        budget: heads to keep at a site, or in all (None).
    """
    found = []
    for site, number in budget:
        total = len(layout.heads) if site is None else sum(layout.heads.counts[site])
        free = int(layout.size_U[layout.is_at(site)].sum())
        found.append(Quota(site, number - (total - free)))
    return tuple(found)
