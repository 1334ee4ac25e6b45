"""The first sentences on what heads look at: the clearest by name, then how many have a role."""

from collections.abc import Sequence

from headcount import numbers
from headcount.core import sorted_by
from headcount.pages.kinds import Found, Leading, counted
from headcount.pages.sentences import (
    first_lower,
    headline_of,
    nothing_tested,
    texts_of,
    with_role,
)
from headcount.results import Analysis
from headcount.vocabulary import TraitEntry

KINDS = 2
"""Largest number of kinds whose heads are named."""
NAMED = 2
"""Largest number of heads of a kind that are named."""


def leaders(run: Analysis, found: Found) -> str:
    """The clearest heads of the most telling kinds by name, then how many heads have a role.

    Heads with a tendency are named only if none has a role.

    Args:
        run: the run.
        found: what leads each head, by name.
    """
    leads = {head: each for head, each in found.items() if each}
    if nothing_tested(run) or not leads:
        return headline_of(run, [*found.values()])
    roles = {head: each for head, each in leads.items() if each.verdict == "role"}
    chosen = roles or leads
    kinds = [kind for kind, _ in _most_telling(chosen)]
    named = numbers.listed([_named(kind, chosen, bool(roles)) for kind in kinds[:KINDS]])
    where, many = texts_of(run.record), with_role([*found.values()])
    many = f"In {where}, {first_lower(many)}" if where else many
    return f"{named}. {many}{_most_frequent(roles, kinds[:KINDS])}."


def _most_telling(chosen: Found) -> list[tuple[TraitEntry, int]]:
    """Kinds with their numbers of heads: the most telling first, then the most frequent."""
    return sorted(counted(chosen.values()), key=lambda pair: (pair[0].role.starts, -pair[1]))


def _named(kind: TraitEntry, chosen: dict[str, Leading], is_role: bool) -> str:
    """The clearest heads of a kind and what they do: `dec.18.6 and dec.17.4 look at ...`."""
    own = [(head, each) for head, each in chosen.items() if each.kind.key == kind.key]
    clearest = sorted_by(own, lambda pair: pair[1].first_gain, descending=True)[:NAMED]
    names = numbers.listed([head for head, _ in clearest])
    if not is_role:
        return f"{names} {'tends' if len(clearest) == 1 else 'tend'} to {kind.many}"
    return f"{names} {kind.one if len(clearest) == 1 else kind.many}"


def _most_frequent(roles: Found, named: Sequence[TraitEntry]) -> str:
    """How many heads with a role are of the most frequent kind, unless it was named."""
    kind, number = max(counted(roles.values()), key=lambda pair: pair[1], default=(None, 0))
    if kind is None or kind.key in {each.key for each in named}:
        return ""
    return f"; {numbers.count(number)} of them {kind.one if number == 1 else kind.many}"
