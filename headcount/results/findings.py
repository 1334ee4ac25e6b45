"""Findings: the sentences that say what a head does, the same in records, cards and headlines."""

from collections.abc import Mapping

from headcount import numbers
from headcount.results.profiles import TraitStrength
from headcount.vocabulary import (
    SYNTAX,
    RoleEntry,
    TraitEntry,
    kind_of,
    relation_target,
    roles_named,
)


def kind_of_trait(trait: TraitStrength, roles: Mapping[str, RoleEntry] | None = None) -> TraitEntry:
    """The row of what a head shows: its trait's, or that of all relations.

    Args:
        trait: the trait.
        roles: roles by name, among them the trait's; None for those with a row.
    """
    role = (roles or roles_named([trait.role]))[trait.role]
    return kind_of(SYNTAX.key if trait.relation is not None else trait.trait, role)


def target_of(trait: TraitStrength) -> str:
    """What a head with the trait looks at or finds; for a relation, with its name in brackets."""
    if trait.relation is not None:
        return f"{relation_target(trait.relation, trait.direction or '')} ({trait.relation})"
    if trait.offset is not None and trait.head.startswith("cross."):
        where = f"its place {numbers.signed(trait.offset)}" if trait.offset else "the same place"
        return f"the source token at {where}"
    direction = trait.direction
    if trait.offset is not None:
        side = "left" if trait.offset < 0 else "right"
        direction = f"{numbers.of(abs(trait.offset), 'place', 'places')} to the {side}"
    return kind_of_trait(trait).target.replace("{direction}", str(direction))


def does(trait: TraitStrength) -> str:
    """What a head with the trait does, as a predicate: "looks at the previous token"."""
    return kind_of_trait(trait).does(target_of(trait))


def finding(trait: TraitStrength) -> str:
    """What a head does, how often, and what its null would give; numbers of the tested half.

    >>> finding(nsubj)  # doctest: +SKIP
    'finds the subject of a verb (nsubj) in 58 % of cases; the best fixed position manages 37 %'
    """
    kind, share, null = kind_of_trait(trait), trait.share, trait.null
    if kind.is_of_cases and trait.attainable > 0:
        share, null = share / trait.attainable, null / trait.attainable
    return kind.finding.format(
        does=does(trait),
        target=target_of(trait),
        much=numbers.percent(share),
        null=kind.by_position if trait.position_null > trait.chance else kind.by_chance,
        little=numbers.percent(null),
    )
