"""Functions: which roles survived pruning, and which heads took one over in the pruned model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from headcount.heads import Head, Heads
from headcount.pruning.plan import Plan

Roles = Mapping[str, Sequence[str]]
"""Head name to the names of its roles."""


@final
@dataclass(frozen=True)
class Survival:
    """What became of one role."""

    role: str
    before: int
    """Number of heads with the role in the dense model."""
    stayed: tuple[str, ...]
    """Names of these heads that were kept."""
    kept: tuple[str, ...] | None = None
    """Names of these heads that still have the role after pruning; None if not analysed."""
    taken_over: tuple[str, ...] | None = None
    """Names of heads that have the role only in the pruned model."""


def survivals(
    plan: Plan, heads: Heads, dense: Roles, pruned: Roles | None = None
) -> list[Survival]:
    """What became of every role of the dense or the pruned model.

    Args:
        plan: which heads are kept.
        heads: heads of the dense model.
        dense: roles of the dense model.
        pruned: roles of the pruned model, by the heads' names in the dense model.
    """
    staying = [str(head) for head in plan.staying(heads)]
    names = dict.fromkeys(role for each in dense.values() for role in each)
    names |= dict.fromkeys(role for each in (pruned or {}).values() for role in each)
    found = []
    for role in names:
        before = [head for head in dense if role in dense[head]]
        stayed = tuple(head for head in staying if head in before)
        survival = Survival(role, len(before), stayed)
        if pruned is not None:
            now = [head for head in staying if role in pruned.get(head, ())]
            kept = tuple(head for head in now if head in before)
            taken = tuple(head for head in now if head not in before)
            survival = Survival(role, len(before), stayed, kept, taken)
        found.append(survival)
    return found


def old_names(plan: Plan, heads: Heads) -> dict[str, str]:
    """Maps the name of every head of the compact model to its name in the dense model.

    >>> heads = Heads({"encoder.self": (2, 3)})
    >>> old_names(Plan.keeping(heads, [Head("encoder.self", 1, 2)]), heads)
    {'enc.1.0': 'enc.1.2'}
    """
    return {
        str(Head(site, layer, new)): str(Head(site, layer, old))
        for site, counts in heads.counts.items()
        for layer in range(len(counts))
        for new, old in enumerate(plan.of_layer(heads, site, layer))
    }
