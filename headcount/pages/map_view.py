"""The map of heads: a cell a head by what leads it, or by a number, its legend, and kept heads."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, final

from headcount import numbers
from headcount.pages.kinds import (
    Found,
    Leading,
    counted,
    num_borderline,
    only_second,
    tint,
    verdicts,
)
from headcount.pages.names import SITE_TITLES, columns_of
from headcount.pages.part import Keeping, Map, page_parts
from headcount.pages.sentences import nothing_words
from headcount.pages.worth import SURE, effect_of, mattering
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


@final
@dataclass(frozen=True)
class Cell:
    """One head in a grid; layers with fewer heads have None in place of cells."""

    head: str
    index: int
    matters: bool
    """Whether the model gets worse without this head, beyond chance."""
    says: str
    """Text for screen readers."""
    kind: TraitEntry | None = None
    """What leads the head; None if nothing was found."""
    second: TraitEntry | None = None
    """What else it does; None without another role or tendency."""
    verdict: str = "none"
    """`role`, `tendency` or `none`."""
    tint: int = 0
    """Share of the hue in the cell, in percent."""


Layer = tuple[int, tuple[Cell | None, ...]]
"""The number of a layer, and its heads."""
MOST_LAYERS = 16
"""Number of layers above which a grid is laid out in parts."""


@final
@dataclass(frozen=True)
class Grid:
    """Layers x heads of one site."""

    site: str
    title: str
    num_columns: int
    layers: tuple[Layer, ...]

    @property
    def parts(self) -> tuple[tuple[Layer, ...], ...]:
        """Layers that stand below each other; a deep model's parts stand side by side."""
        number = -(-len(self.layers) // MOST_LAYERS)
        size = -(-len(self.layers) // number)
        return tuple(self.layers[n : n + size] for n in range(0, len(self.layers), size))


@final
@dataclass(frozen=True)
class _Chip:
    """One entry of the legend: a kind of heads with their number."""

    kind: TraitEntry
    part: Literal["kind", "second"]
    """Whether it leads these heads, or comes second in all of them."""
    count: str


@final
@dataclass(frozen=True)
class Legend:
    """What the map shows, with counts."""

    verdicts: tuple[tuple[str, str, str], ...]
    """Verdict, its name and the number of its heads."""
    chips: tuple[_Chip, ...]
    mattering: str | None
    """Number of heads that matter; None if that was not tested."""


def legend(run: Analysis, found: Found) -> Legend:
    """The legend of the map."""
    names = ("role", "tendency", "none"), ("role", "tendency", "neither")
    counts = [*map(numbers.count, verdicts(found.values()))]
    if some := num_borderline(found.values()):
        counts[0] += f" ({numbers.count(some)} borderline)"
    chips = [_Chip(kind, "kind", numbers.count(some)) for kind, some in counted(found.values())]
    chips += [
        _Chip(kind, "second", f"{numbers.count(some)} as second trait")
        for kind, some in only_second(found.values())
    ]
    return Legend(tuple(zip(*names, counts, strict=True)), tuple(chips), _num_mattering(run))


def _num_mattering(run: Analysis) -> str | None:
    matter = mattering(run)
    if matter is None or run.importance is None:
        return None
    return numbers.count(len(matter))


def grids(run: Analysis, found: Found) -> tuple[Grid, ...]:
    """One grid for each site."""
    matter, nothing = mattering(run) or frozenset(), nothing_words(run)
    result = []
    for site, rows in run.by_site():
        cells = {
            (row.layer, row.index): _cell(
                row.head, row.index, found[row.head], row.head in matter, nothing
            )
            for row in rows
        }
        num_columns = 1 + max(index for _, index in cells)
        layers = tuple(
            (layer, tuple(cells.get((layer, index)) for index in range(num_columns)))
            for layer in sorted({layer for layer, _ in cells})
        )
        result.append(Grid(site, SITE_TITLES.get(site, site), num_columns, layers))
    return tuple(result)


def _cell(head: str, index: int, leading: Leading | None, matters: bool, nothing: str) -> Cell:
    worth = "; matters" if matters else ""
    if leading is None:
        return Cell(head, index, matters=matters, says=f"{head}: {nothing}{worth}")
    kind, second = leading.kind, leading.second
    also = f"; also {second.label}" if second else ""
    says = f"{head}: {leading.called}, {leading.short}{also}{worth}"
    return Cell(
        head=head,
        index=index,
        kind=kind,
        second=second,
        verdict=leading.verdict,
        tint=tint(leading),
        matters=matters,
        says=says,
    )


def keepings(run: Analysis) -> tuple[Keeping, ...]:
    """Every choice of heads that the folder holds, the pruned model's first."""
    found = [each for part in page_parts() for each in part.keepings(run)]
    return tuple(sorted(found, key=lambda each: each.key != "pruned"))


def fates(run: Analysis, shown: Sequence[Keeping]) -> dict[str, str]:
    """Where each head is kept, in a sentence; empty without any choice."""
    return {row.head: " ".join(_fate(row.head, shown)) for row in run.rows}


def _fate(head: str, shown: Sequence[Keeping]) -> list[str]:
    found = []
    for each in shown:
        if each.key == "pruned":
            verb = "keeps it" if head in each.kept else "is without it"
            found.append(f"The pruned model {verb}.")
    budgets = [each for each in shown if each.key != "pruned"]
    kept, gone = (
        [each.label for each in budgets if (head in each.kept) is wanted]
        for wanted in (True, False)
    )
    if budgets:
        parts = [f"keeps it among {numbers.listed(kept)} heads"] if kept else []
        parts += [f"prunes it at {numbers.listed(gone)}"] if gone else []
        found.append(f"The curve's best method, {budgets[0].method}, {' and '.join(parts)}.")
    return found
