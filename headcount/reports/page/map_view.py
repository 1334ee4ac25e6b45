"""Maps: every number that the grid of heads can be coloured by."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, final

from headcount import numbers
from headcount.reports.documents.syntax import is_few, measured
from headcount.reports.names import measures
from headcount.reports.worth import SURE, effect_of
from headcount.results import Analysis, RelationResult, Skills
from headcount.vocabulary import DIRECTIONS, NOT_SYNTAX, SKILLS, ColumnEntry, relation_words

Key = tuple[str, str]
"""A relation and its direction."""


@final
@dataclass(frozen=True)
class Map:
    """One number per head, with its colour scale."""

    key: str
    label: str
    group: str
    about: str
    scale: Literal["sequential", "diverging"]
    low: float | None
    """Smallest value, or minus the largest magnitude if diverging; None if all are NaN."""
    high: float | None
    low_text: str
    high_text: str
    values: tuple[float | None, ...]
    """Values in the order of the heads; None if not measured."""
    texts: tuple[str, ...]
    words: str
    """Everything that a search for it can name, in lower case."""
    sure: tuple[bool, ...] | None = None
    """Whether each head's number is beyond chance; None if that was not tested."""
    sure_about: str = ""
    """What a head is that is marked as sure."""


def maps(run: Analysis) -> tuple[Map, ...]:
    """All measures, skills, the largest gain in syntax, and every relation with enough cases."""
    return (
        *map(partial(_column_map, run), measures(run.measures)),
        *_skill_maps(run),
        *_relation_maps(run),
    )


def _column_map(run: Analysis, column: ColumnEntry) -> Map:
    """The map of a column; of measured effects it marks those beyond chance."""
    shown = head_map(column, [row.values[column.key] for row in run.rows], column.words)
    if column.key != "ablation_delta":
        return shown
    p = [effect_of(row, column.key).p for row in run.rows]
    if not any(map(math.isfinite, p)):
        return shown
    about = f"beyond chance (p < {SURE}, corrected)"
    return replace(shown, sure=tuple(each < SURE for each in p), sure_about=about)


def head_map(column: ColumnEntry, values: Sequence[float], words: str) -> Map:
    """A map of values in the order of the heads; 0 is the middle of a diverging scale."""
    finite = [value for value in values if math.isfinite(value)] or [math.nan]
    low, high = min(finite), max(finite)
    if column.has_signs:
        high = max(abs(low), abs(high))
        low = -high
    return Map(
        key=column.key,
        label=column.label,
        group=column.group,
        about=column.about,
        scale="diverging" if column.has_signs else "sequential",
        low=numbers.rounded(low),
        high=numbers.rounded(high),
        low_text=column.show(low),
        high_text=column.show(high),
        values=tuple(map(numbers.rounded, values)),
        texts=tuple(map(column.show, values)),
        words=words.lower(),
    )


def _skill_maps(run: Analysis) -> Iterator[Map]:
    """A map for each skill that was measured."""
    skills = run.of(Skills)
    for skill in SKILLS.values():
        ranked = [] if skills is None else skills.ranked(skill.key)
        if not ranked:
            continue
        found = {row.head: row.score(skill.key) for row in ranked}
        key, label = f"skill_{skill.key}", skill.label + skill.where
        column = ColumnEntry(key, label, "Skills", skill.about, skill.show, "", skill.has_signs)
        values = [found[row.head][0] for row in run.rows]
        shown = head_map(column, values, f"{skill.label} skill {skill.about}")
        sure = tuple(found[row.head][1] >= skill.least for row in run.rows)
        about = f"at least {skill.least:g}, as is the whole 95 % interval"
        yield replace(shown, sure=sure, sure_about=about)


def _relation_maps(run: Analysis) -> list[Map]:
    by_key: dict[Key, dict[str, RelationResult]] = {}
    limits = run.record.thresholds
    for result in measured(run.relation_rows or ()):
        if not is_few(result, limits):
            by_key.setdefault((result.relation, result.direction), {})[result.head] = result
    if not by_key:
        return []
    heads = [row.head for row in run.rows]
    gains = [
        max(
            (
                own[head].gain
                for (relation, _), own in by_key.items()
                if head in own and relation not in NOT_SYNTAX
            ),
            default=math.nan,
        )
        for head in heads
    ]
    about = "largest accuracy minus baseline over all relations with enough cases, in points"
    gain = ColumnEntry(
        "gain", "best gain in syntax", "Syntax", about, numbers.points, has_signs=True
    )
    first = head_map(gain, gains, gain.label)
    found = _found(run)
    if found is not None:
        sure = _are_in(heads, set[str]().union(*found.values()))
        about = "finds a relation beyond chance, in the other half"
        first = replace(first, sure=sure, sure_about=about)
    return [first, *(_relation_map(key, own, heads, found) for key, own in sorted(by_key.items()))]


def _found(run: Analysis) -> dict[Key, set[str]] | None:
    """Heads that find each relation more often than position explains; None if not tested."""
    if run.traits is None:
        return None
    found: dict[Key, set[str]] = {}
    for head, traits in run.traits.items():
        for trait in traits:
            if trait.relation is not None and trait.is_beyond_chance:
                found.setdefault((trait.relation, trait.direction or ""), set()).add(head)
    return found


def _are_in(heads: list[str], chosen: set[str]) -> tuple[bool, ...]:
    return tuple(head in chosen for head in heads)


def _relation_map(
    key: Key,
    results: Mapping[str, RelationResult],
    heads: list[str],
    found: Mapping[Key, set[str]] | None,
) -> Map:
    relation, direction = key
    short, meaning = DIRECTIONS.get(direction, (direction, ""))
    baseline = numbers.percent(next(iter(results.values())).baseline)
    column = ColumnEntry(
        " ".join(key),
        f"{relation}, {short}",
        "Relation accuracy",
        f"{meaning}; baseline {baseline}",
        numbers.percent,
    )
    values = [results[head].accuracy if head in results else math.nan for head in heads]
    shown = head_map(column, values, f"{column.label} {relation_words(relation)}")
    if found is None:
        return shown
    sure = _are_in(heads, found.get(key, set()))
    return replace(shown, sure=sure, sure_about="beats position beyond chance, in the other half")
