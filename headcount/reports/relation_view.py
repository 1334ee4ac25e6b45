"""Relations as the report shows them: on the whole corpus, and as they were tested.

The best of many heads on the sentences that chose it looks better than it is. Where relations were
tested, the first half of the corpus chooses the head and the direction; all numbers are of the
second half.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

from headcount import numbers
from headcount.core import amount
from headcount.results import Analysis, Profiles, RelationResult, TraitStrength
from headcount.vocabulary import ALL, DIRECTIONS, NOT_SYNTAX, Thresholds, relation_words

Key = tuple[str, str]
"""A relation and its direction."""

MOST, LEAST = 6, 3
"""Numbers of relations on a card."""


@final
@dataclass(frozen=True)
class RelationScore:
    """How well one head finds one relation in one direction, ready to print."""

    head: str
    relation: str
    gloss: str
    direction: str
    accuracy: float | None
    baseline: float | None
    accuracy_text: str
    baseline_text: str
    gain_text: str
    cases_text: str
    few: bool
    beats: bool
    clearly: bool
    """Whether it beats the baseline by the threshold of syntactic heads."""
    null_text: str
    """Accuracy at random weights; empty without a null run."""


@final
@dataclass(frozen=True)
class RelationRow:
    """The best head of one relation in every direction; None if a direction was not measured."""

    relation: str
    best: tuple[RelationScore | None, ...]
    clearest: RelationScore
    """The direction with the largest gain."""


@final
@dataclass(frozen=True)
class RelationTable:
    """Best heads as in table 1 of Voita 2019 and of Clark 2019."""

    directions: tuple[tuple[str, str], ...]
    rows: tuple[RelationRow, ...]
    """Relations with enough cases, the largest gain first."""
    few_rows: tuple[RelationRow, ...]
    """Relations with too few cases."""
    num_few: int
    """Number of relations with too few cases; `all` does not count as one."""
    is_reported: bool
    """Whether a syntactic relation has enough cases."""
    summary: str


def measured(results: Iterable[RelationResult]) -> list[RelationResult]:
    """The results that have an accuracy and a baseline."""
    return [result for result in results if math.isfinite(result.gain)]


def in_short(direction: str) -> str:
    """The short form of a direction, with an arrow."""
    return DIRECTIONS.get(direction, (direction, ""))[0]


def map_key(key: Key) -> str:
    """The key of the map of a relation in one direction."""
    return " ".join(key)


def best_of_head(
    results: Sequence[RelationResult],
    null: Sequence[RelationResult] | None,
    limits: Thresholds,
) -> dict[str, tuple[RelationScore, ...]]:
    """The relations with the largest gain of every head, those with enough cases first.

    At most `MOST` relations that beat the baseline, but at least `LEAST` in any case.
    """
    random = {(r.head, r.relation, r.direction): r.accuracy for r in null or ()}
    by_head: dict[str, list[RelationResult]] = {}
    for result in measured(results):
        by_head.setdefault(result.head, []).append(result)
    scores = {}
    for head, own in by_head.items():
        own.sort(key=partial(_rank, limits))
        shown = [r for place, r in enumerate(own) if place < LEAST or r.gain > 0][:MOST]
        scores[head] = tuple(
            _score(r, random.get((head, r.relation, r.direction)), null is not None, limits)
            for r in shown
        )
    return scores


def relation_table(
    results: Sequence[RelationResult], null: Sequence[RelationResult] | None, limits: Thresholds
) -> RelationTable:
    """The best head of every relation and direction."""
    best = _best(results)
    random = {key: result.accuracy for key, result in _best(null or ()).items()}
    scores = {
        key: _score(result, random.get(key), null is not None, limits)
        for key, result in best.items()
    }
    occurring = {direction for _, direction in best}
    directions = [name for name in DIRECTIONS if name in occurring]
    directions += sorted(occurring - set(directions))
    ranked = sorted(best, key=lambda key: _rank(limits, best[key]))
    rows: dict[str, RelationRow] = {}
    for relation, direction in ranked:  # a relation is ranked by its best direction
        if relation not in rows:
            both = tuple(scores.get((relation, name)) for name in directions)
            rows[relation] = RelationRow(relation, both, scores[relation, direction])
    every = [rows.pop(ALL)] if ALL in rows else []
    enough = [row for row in rows.values() if not row.clearest.few]
    few = [row for row in rows.values() if row.clearest.few]
    return RelationTable(
        directions=tuple(DIRECTIONS.get(name, (name, "")) for name in directions),
        rows=tuple(enough + [row for row in every if not row.clearest.few]),
        few_rows=tuple(few + [row for row in every if row.clearest.few]),
        num_few=len(few),
        is_reported=any(row.relation not in NOT_SYNTAX for row in enough),
        summary=_summary(list(scores.values()), limits),
    )


def _best(results: Iterable[RelationResult]) -> dict[Key, RelationResult]:
    """The most accurate head of each relation and direction, the first among equals."""
    best: dict[Key, RelationResult] = {}
    for result in measured(results):
        key = (result.relation, result.direction)
        if key not in best or result.accuracy > best[key].accuracy:
            best[key] = result
    return best


def _summary(scores: list[RelationScore], limits: Thresholds) -> str:
    enough = [score for score in scores if not score.few and score.relation not in NOT_SYNTAX]
    if not enough:
        few = limits.syntactic_cases
        return f"No relation has {few} cases: the numbers below come from few sentences."
    relations = {score.relation for score in enough}
    beating = {score.relation for score in enough if score.beats}
    noun = numbers.of(len(relations), "relation", "relations")
    of = f"the {noun} with at least {amount(limits.syntactic_cases, 'case')}"
    if not beating:
        return f"None beats its baseline: for {of}, a fixed offset is at least as good as any head."
    clearly = {score.relation for score in enough if score.clearly}
    how_many = "each" if len(beating) == len(relations) else numbers.count(len(beating))
    verb = "has" if how_many in ("each", "1") else "have"
    return (
        f"Of {of}, {how_many} {verb} a head that beats the best fixed offset, "
        f"{numbers.count(len(clearly)) if clearly else 'none'} by "
        f"{limits.syntactic_words} or more."
    )


def _score(
    result: RelationResult, null: float | None, has_null: bool, limits: Thresholds
) -> RelationScore:
    offset, baseline = numbers.signed(result.baseline_offset), numbers.percent(result.baseline)
    return RelationScore(
        head=result.head,
        relation=result.relation,
        gloss=relation_words(result.relation),
        direction=in_short(result.direction),
        accuracy=numbers.rounded(result.accuracy),
        baseline=numbers.rounded(result.baseline),
        accuracy_text=numbers.percent(result.accuracy),
        baseline_text=f"{offset}: {baseline}",
        gain_text=numbers.points(result.gain),
        cases_text=numbers.count(result.cases),
        few=is_few(result, limits),
        beats=result.gain > 0,
        clearly=limits.is_syntactic(result.accuracy, result.baseline),
        null_text=numbers.percent(math.nan if null is None else null) if has_null else "",
    )


def is_few(result: RelationResult, limits: Thresholds) -> bool:
    """Whether there are so few cases that chance can look like skill."""
    return result.cases < limits.syntactic_cases


def _rank(limits: Thresholds, result: RelationResult) -> tuple[bool, bool, float]:
    """Sort key: enough cases first, non-syntactic relations last, then the largest gain."""
    return is_few(result, limits), result.relation in NOT_SYNTAX, -result.gain


@final
@dataclass(frozen=True)
class TestedSyntax:
    """The relations of a corpus, the largest gain first."""

    rows: tuple[TraitStrength, ...]
    """The trait of the head that was chosen for each."""
    summary: str
    untested: str
    """Relations with too few cases, in a sentence; empty without any."""


def syntax_of(run: Analysis) -> TestedSyntax | None:
    """The table; None without profiles or trees."""
    of_relations = {
        trait.trait for trait in _traits(run.traits or {}) if trait.relation is not None
    }
    if not of_relations:
        return None
    best = sorted(chosen(run).values(), key=lambda trait: trait.chance - trait.share)
    few = len(of_relations) - len(best)
    return TestedSyntax(
        tuple(best),
        _tested_summary(best, run.record.thresholds),
        f"{numbers.of(few, 'relation has', 'relations have')} too few cases to test."
        if few
        else "",
    )


def chosen(run: Analysis) -> dict[str, TraitStrength]:
    """The head that the first half of the corpus chose for each relation, with enough cases."""
    best: dict[str, TraitStrength] = {}
    for trait in _traits(run.traits or {}):
        if trait.relation is not None and trait.verdict != "untested":
            known = best.get(trait.trait)
            if known is None or trait.first_gain > known.first_gain:
                best[trait.trait] = trait
    return best


def _traits(profiles: Profiles) -> Iterator[TraitStrength]:
    return (trait for traits in profiles.values() for trait in traits)


def _tested_summary(best: list[TraitStrength], limits: Thresholds) -> str:
    if not best:
        return f"No relation has the {amount(limits.syntactic_cases, 'case')} that a test needs."
    beyond = sum(trait.is_beyond_chance for trait in best)
    roles = sum(trait.verdict == "role" for trait in best)
    if not beyond:
        many = f"any of the {len(best)} relations" if len(best) > 1 else "the one relation"
        return f"No head finds {many} with enough cases more often than position explains."
    return (
        f"Of {numbers.of(len(best), 'relation', 'relations')} with enough cases, a head finds "
        f"{numbers.count(beyond)} more often than position explains, "
        f"{numbers.count(roles) if roles else 'none'} by {limits.syntactic_words} or more."
    )
