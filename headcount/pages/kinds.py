"""Kinds of heads: the row of the trait that leads each head.

Letters differ between all kinds, so that maps can be read in grey.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

from headcount import numbers
from headcount.core import Table
from headcount.pages.names import SITE_TITLES
from headcount.results import Analysis, Role, TraitStrength, does, finding, kind_of_trait
from headcount.vocabulary import (
    BORDERLINE,
    ROLES,
    RoleEntry,
    TraitEntry,
    in_legend,
    kind_of,
    roles_named,
)

MOST = 3
"""Largest number of kinds beside sinks that the headline names."""
NEITHER = "neither role nor tendency"
"""What heads are called that nothing leads."""
NO_ROLE = "no role"
_FAINTEST, _STRONGEST = 14, 52
"""Share of its hue, in percent, that the cell of the weakest and the strongest tendency has."""


@final
@dataclass(frozen=True)
class Leading:
    """What leads one head."""

    kind: TraitEntry
    verdict: str
    """`role` or `tendency`."""
    strength: float
    """Strength of the trait, from 0 to 1; 1 if the run has no profiles."""
    says: str
    """What the head does, with its numbers."""
    short: str
    """What the head does, without numbers."""
    first_gain: float
    """Share minus null in the half of the corpus that chose; the role's score without profiles."""
    second: TraitEntry | None = None
    """The next finding of another kind, a role or tendency; None without one."""
    certainty: str | None = None
    """`clear` or `borderline`, for a role; None if it is unknown."""

    @property
    def called(self) -> str:
        """The verdict, with a word for a role whose interval does not clear its threshold."""
        return certain(self.verdict, self.certainty)


def kinds_of(run: Analysis) -> list[TraitEntry]:
    """Every kind that a head of the run has, as its leading trait or as another finding."""
    roles = roles_of(run)
    found = [each.kind for each in leading(run).values() if each]
    found += [
        kind_of_trait(trait, roles)
        for traits in (run.traits or {}).values()
        for trait in traits
        if trait.is_beyond_chance
    ]
    return [*{kind.key: kind for kind in found}.values()]


def roles_of(run: Analysis) -> dict[str, RoleEntry]:
    """Names of all roles that heads have or were tested for."""
    names = {trait.role for traits in (run.traits or {}).values() for trait in traits}
    found = [*(r for row in run.rows for r in row.roles), *sorted(names)]
    return roles_named(found, run.record.further_roles)


Found = Mapping[str, Leading | None]
"""What leads each head, by name."""


def key_of(leads: Leading | None) -> str | None:
    """Key of the kind that leads a head; None if none does."""
    return leads.kind.key if leads else None


def leading(run: Analysis) -> dict[str, Leading | None]:
    """What leads each head, by name: its main role, else its strongest tendency, else nothing."""
    roles = roles_of(run)
    if run.traits is None:
        return {head: _by_role(found, roles) for head, found in run.roles.items()}
    return {
        row.head: _by_traits(run.traits.get(row.head, ()), run.roles[row.head], roles)
        for row in run.rows
    }


def findings(traits: Sequence[TraitStrength], roles: Sequence[Role]) -> list[TraitStrength]:
    """The roles and tendencies of a head: the main role first, then by verdict and strength."""
    order = [role.role for role in roles]
    found = [each for each in traits if each.is_beyond_chance]

    def rank(trait: TraitStrength) -> tuple[bool, int, float]:
        place = order.index(trait.role) if trait.role in order else len(order)
        return trait.verdict != "role", place, -trait.strength

    return sorted(found, key=rank)


def _by_traits(
    traits: Sequence[TraitStrength], own: Sequence[Role], roles: Mapping[str, RoleEntry]
) -> Leading | None:
    found = findings(traits, own)
    if not found:
        return None
    best = found[0]
    kind, *others = dict.fromkeys(kind_of_trait(each, roles) for each in found)
    second = next((each for each in others if each.key != kind.key), None)
    return Leading(
        kind=kind,
        verdict=best.verdict,
        strength=min(1.0, max(0.0, best.strength)),
        says=finding(best),
        short=does(best),
        first_gain=best.first_gain,
        second=second,
        certainty=own[0].certainty if own else None,
    )


def _by_role(found: Sequence[Role], roles: Mapping[str, RoleEntry]) -> Leading | None:
    """What leads a head of a run without profiles, whose traits are unknown."""
    if not found:
        return None
    kind = kind_of(found[0].role, roles[found[0].role])
    second = kind_of(found[1].role, roles[found[1].role]) if len(found) > 1 else None
    return Leading(
        kind=kind,
        verdict="role",
        strength=1.0,
        says=found[0].evidence,
        short=kind.one,
        first_gain=found[0].score,
        second=second,
        certainty=found[0].certainty,
    )


def tint(leading: Leading) -> int:
    """Share of the hue in a cell, in percent: a role is solid, a tendency as strong as it is."""
    if leading.verdict == "role":
        return 100
    return round(_FAINTEST + (_STRONGEST - _FAINTEST) * leading.strength)


def counted(found: Iterable[Leading | None]) -> list[tuple[TraitEntry, int]]:
    """The kinds that lead heads with their numbers, in the order of the legend."""
    return _counted(each.kind for each in found if each is not None)


def only_second(found: Iterable[Leading | None]) -> list[tuple[TraitEntry, int]]:
    """The kinds that lead no head and come second in some, with the numbers of these."""
    leads = [each for each in found if each is not None]
    first = {each.kind.key for each in leads}
    return _counted(each.second for each in leads if each.second and each.second.key not in first)


def most_telling(found: Iterable[Leading | None]) -> list[tuple[TraitEntry, int]]:
    """Kinds with their numbers of heads: the most telling first, then the most frequent."""
    return sorted(counted(found), key=lambda pair: (pair[0].role.starts, -pair[1]))


def _counted(found: Iterable[TraitEntry]) -> list[tuple[TraitEntry, int]]:
    kinds = [*found]
    number = Counter(kind.key for kind in kinds)
    unique = {kind.key: kind for kind in kinds}
    return [(unique[key], number[key]) for key in in_legend(unique)]


def verdicts(found: Iterable[Leading | None]) -> tuple[int, int, int]:
    """Number of heads with a role, with a tendency alone, and with neither."""
    counts = Counter(each.verdict if each else "none" for each in found)
    return counts["role"], counts["tendency"], counts["none"]


def certain(verdict: str, certainty: str | None) -> str:
    """A verdict in words.

    >>> certain("role", "clear"), certain("role", "borderline")
    ('role', 'borderline role')
    """
    return f"{certainty} {verdict}" if certainty == BORDERLINE else verdict


def num_borderline(found: Iterable[Leading | None]) -> int:
    """Number of heads whose main role is borderline."""
    return sum(each is not None and each.certainty == BORDERLINE for each in found)


def kinds_sentence(found: Iterable[Leading | None]) -> str:
    """What heads do, as clauses: "9 find syntactic relations and 24 look at the first token".

    The most telling kinds come first, and of equally telling ones the most frequent. After `MOST`
    others the most frequent sink is named.
    """
    leads = [each for each in found if each is not None]
    ranked = most_telling(leads)
    sinks = [pair for pair in ranked if pair[0].role == ROLES["sink"]]
    others = [pair for pair in ranked if pair not in sinks]
    named = [*others[:MOST], *sinks[:1]]
    clauses = []
    for kind, number in named:
        some = num_borderline(each for each in leads if each.kind.key == kind.key)
        note = f" ({numbers.count(some)} borderline)" if some else ""
        clauses.append(f"{numbers.count(number)} {kind.one if number == 1 else kind.many}{note}")
    title = "Counted by main role or tendency, " if len(named) < len(ranked) else ""
    return f"{title}{numbers.listed(clauses)}"


def kept_table(run: Analysis, choices: Mapping[str, Collection[str]]) -> Table:
    """How many heads of each kind, and of each site, are kept by each choice.

    Args:
        run: the run over all heads.
        choices: names of the kept heads, by what chose them.
    """
    found = leading(run)
    kinds = {head: key_of(leads) for head, leads in found.items()}
    groups: list[tuple[str, list[str]]] = [
        (kind.label, [head for head in kinds if kinds[head] == kind.key])
        for kind, _ in counted(found.values())
    ]
    groups.append((NEITHER, [head for head in kinds if not kinds[head]]))
    if len(run.sites) > 1:
        groups += [
            (SITE_TITLES.get(site, site), [row.head for row in rows])
            for site, rows in run.by_site()
        ]
    rows = (
        (
            label,
            numbers.count(len(heads)),
            *(numbers.count(len({*heads} & {*choice})) for choice in choices.values()),
        )
        for label, heads in groups
        if heads
    )
    return Table.of(("heads", "all", *choices), rows)
