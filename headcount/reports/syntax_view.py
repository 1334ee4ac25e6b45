"""Syntax as it was tested: for each relation the head that one half chose, measured on the other.

The best of many heads on the sentences that chose it looks better than it is. Here the first half
of the corpus chooses the head and the direction; all numbers are of the second half.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from headcount import numbers
from headcount.core import amount
from headcount.reports.relation_view import map_key
from headcount.results import Analysis, Profiles, TraitStrength
from headcount.vocabulary import DIRECTIONS, Thresholds, relation_target, relation_words


@final
@dataclass(frozen=True)
class TestedRow:
    """One relation with the head that was chosen for it."""

    relation: str
    gloss: str
    target: str
    """The word that the head finds, in plain words."""
    direction: str
    """Short form of the direction, with an arrow."""
    head: str
    share: float
    fixed: float
    """Share of the best fixed position."""
    verdict: str
    share_text: str
    fixed_text: str
    gain_text: str
    cases_text: str
    map_key: str
    """Key of the map that shows the relation."""

    @property
    def beats(self) -> bool:
        """Whether the head finds the relation more often than position explains."""
        return self.verdict in ("role", "tendency")


@final
@dataclass(frozen=True)
class TestedSyntax:
    """The relations of a corpus, the largest gain first."""

    rows: tuple[TestedRow, ...]
    summary: str
    untested: str
    """Relations with too few cases, in a sentence; empty without any."""


def syntax_of(run: Analysis) -> TestedSyntax | None:
    """The table; None without profiles or trees."""
    by_relation = _by_relation(run.traits or {})
    if not by_relation:
        return None
    best = [
        max(tested, key=lambda trait: trait.first_gain)
        for traits in by_relation.values()
        if (tested := [trait for trait in traits if trait.verdict != "untested"])
    ]
    best.sort(key=lambda trait: trait.chance - trait.share)
    few = len(by_relation) - len(best)
    return TestedSyntax(
        tuple(map(_row, best)),
        _summary(best, run.record.thresholds),
        f"{numbers.of(few, 'relation has', 'relations have')} too few cases to test."
        if few
        else "",
    )


def _by_relation(profiles: Profiles) -> dict[str, list[TraitStrength]]:
    found: dict[str, list[TraitStrength]] = {}
    for trait in _relations(profiles):
        found.setdefault(trait.trait, []).append(trait)
    return found


def _relations(profiles: Profiles) -> Iterator[TraitStrength]:
    for traits in profiles.values():
        yield from (trait for trait in traits if trait.relation is not None)


def _row(trait: TraitStrength) -> TestedRow:
    relation, direction = trait.relation or trait.trait, trait.direction or ""
    return TestedRow(
        relation=relation,
        gloss=relation_words(relation),
        target=relation_target(relation, direction),
        direction=DIRECTIONS.get(direction, (direction, ""))[0],
        head=trait.head,
        share=numbers.rounded(trait.share) or 0.0,
        fixed=numbers.rounded(trait.chance) or 0.0,
        verdict=trait.verdict,
        share_text=numbers.percent(trait.share),
        fixed_text=numbers.percent(trait.chance),
        gain_text=numbers.points(trait.share - trait.chance),
        cases_text=numbers.count(trait.cases),
        map_key=map_key((relation, direction)),
    )


def _summary(best: list[TraitStrength], limits: Thresholds) -> str:
    if not best:
        return f"No relation has the {amount(limits.syntactic_cases, 'case')} that a test needs."
    beyond = sum(trait.verdict in ("role", "tendency") for trait in best)
    roles = sum(trait.verdict == "role" for trait in best)
    if not beyond:
        many = f"any of the {len(best)} relations" if len(best) > 1 else "the one relation"
        return f"No head finds {many} with enough cases more often than position explains."
    return (
        f"Of {numbers.of(len(best), 'relation', 'relations')} with enough cases, a head finds "
        f"{numbers.count(beyond)} more often than position explains, "
        f"{numbers.count(roles) if roles else 'none'} by {limits.syntactic_words} or more."
    )
