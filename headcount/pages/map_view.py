"""Maps: every number that the grid of heads can be coloured by."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from headcount import numbers
from headcount.pages.names import columns_of
from headcount.pages.part import Map, page_parts
from headcount.pages.worth import SURE, effect_of
from headcount.results import Analysis, RelationResult
from headcount.vocabulary import (
    DIRECTIONS,
    LINK_DIRECTIONS,
    NOT_SYNTAX,
    OF_RELATIONS,
    SYNTAX,
    ColumnEntry,
    LinkWords,
    TraitEntry,
    relation_label,
    relation_words,
)

Key = tuple[str, str, str]
"""The role that a relation gives, the relation and its direction."""


def maps(run: Analysis) -> tuple[Map, ...]:
    """All measures, what capabilities add, and syntax: the largest gain, and every relation."""
    return (
        *map(partial(_column_map, run), columns_of(run)),
        *(each for part in page_parts() for each in part.maps(run)),
        *(each for entry in OF_RELATIONS.values() for each in _relation_maps(run, entry)),
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


def _relation_maps(run: Analysis, entry: TraitEntry) -> list[Map]:
    by_key: dict[Key, dict[str, RelationResult]] = {}
    role, limits, is_syntax = entry.role.name, run.record.thresholds, entry == SYNTAX
    least = limits.syntactic_cases if is_syntax else limits.test_cases
    for result in run.rows_of_role(role):
        if result.is_measured and result.cases >= least:
            by_key.setdefault((role, result.relation, result.direction), {})[result.head] = result
    if not by_key:
        return []
    heads = [row.head for row in run.rows]
    gains = [
        max(
            (
                own[head].gain
                for (_, relation, _), own in by_key.items()
                if head in own and relation not in NOT_SYNTAX
            ),
            default=math.nan,
        )
        for head in heads
    ]
    what = "relations" if is_syntax else "kinds of links"
    about = f"largest accuracy minus baseline over all {what} with enough cases, in points"
    key = "gain" if is_syntax else f"{entry.key}_gain"
    label, group = f"best gain in {entry.key}", entry.key.capitalize()
    gain = ColumnEntry(key, label, group, about, numbers.points, has_signs=True)
    first = head_map(gain, gains, gain.label)
    found = _found(run)
    if found is not None:
        own = (heads for key, heads in found.items() if key[0] == role)
        sure = _are_in(heads, set[str]().union(*own))
        one = "relation" if is_syntax else "link"
        about = f"finds a {one} beyond chance, in the other half"
        first = replace(first, sure=sure, sure_about=about)
    links = run.record.links
    return [
        first,
        *(
            _relation_map(key, own, heads, found, None if is_syntax else links.get(key[1]))
            for key, own in sorted(by_key.items())
        ),
    ]


def _found(run: Analysis) -> dict[Key, set[str]] | None:
    """Heads that find each relation more often than position explains; None if not tested."""
    if run.traits is None:
        return None
    found: dict[Key, set[str]] = {}
    for head, traits in run.traits.items():
        for trait in traits:
            if trait.relation is not None and trait.is_beyond_chance:
                key = (trait.role, trait.relation, trait.direction or "")
                found.setdefault(key, set()).add(head)
    return found


def _are_in(heads: list[str], chosen: set[str]) -> tuple[bool, ...]:
    return tuple(head in chosen for head in heads)


def _relation_map(
    key: Key,
    results: Mapping[str, RelationResult],
    heads: list[str],
    found: Mapping[Key, set[str]] | None,
    words: LinkWords | None,
) -> Map:
    _, relation, direction = key
    _, meaning = (DIRECTIONS | LINK_DIRECTIONS).get(direction, (direction, ""))
    baseline = numbers.percent(next(iter(results.values())).baseline)
    column = ColumnEntry(
        f"{relation} {direction}",
        relation_label(relation, direction, words),
        "Relation accuracy" if words is None else "Link accuracy",
        f"{meaning}; baseline {baseline}",
        numbers.percent,
    )
    values = [results[head].accuracy if head in results else math.nan for head in heads]
    shown = head_map(column, values, f"{column.label} {relation_words(relation, words)}")
    if found is None:
        return shown
    sure = _are_in(heads, found.get(key, set()))
    return replace(shown, sure=sure, sure_about="beats position beyond chance, in the other half")
