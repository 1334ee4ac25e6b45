"""The view model of a comparison: what the heads of two runs do, side by side."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from headcount.core import Document
from headcount.reports import numbers
from headcount.reports.comparison import SKIPPED, Comparison
from headcount.reports.documents.matching import matching_document
from headcount.reports.kinds import Kind, Leading, counted, kinds_of, leading
from headcount.reports.names import MEASURES, site_titles
from headcount.reports.page.compare_plot import Scatter, Span, scatter, span
from headcount.reports.page.grid_view import Grid, grids
from headcount.reports.plain_words import finding, relation_words
from headcount.reports.pruning_order import order_document
from headcount.reports.sentences import headline, measured
from headcount.reports.worth import without
from headcount.results import Analysis, Profiles, TraitStrength

Found = Mapping[str, Leading | None]
"""What leads each head, by name."""

SCATTERS = ("ablation_delta", "gradient", "relevance", "confidence", "entropy", "positional_share")
"""Numbers that are drawn against each other, if both runs have them."""

SHOWN = 4
"""Largest number of findings of a head in each run."""


@final
@dataclass(frozen=True)
class Side:
    """One of the two runs."""

    name: str
    headline: str
    measured: str
    grids: tuple[Grid, ...]
    signature: str


@final
@dataclass(frozen=True)
class KindRow:
    """A kind of heads with the number of its heads in each run; None for neither."""

    kind: Kind | None
    counts: tuple[int, int]
    both: int | None
    """Number of heads that it leads in both; None if the runs are over different heads."""


@final
@dataclass(frozen=True)
class Best:
    """The head that one half of a run's corpus chose for a relation, on the other half."""

    head: str
    share: str
    interval: str
    fixed: str
    verdict: str
    span: Span


@final
@dataclass(frozen=True)
class RelationPair:
    """One relation in both runs."""

    relation: str
    gloss: str
    best: tuple[Best, Best]
    change: str
    apart: bool
    """Whether the two intervals do not meet."""


@final
@dataclass(frozen=True)
class HeadPair:
    """What one head does in each run, and what happens without it."""

    head: str
    same: bool
    kinds: tuple[str, str]
    """Keys of what leads it; empty for nothing."""
    does: tuple[tuple[str, ...], tuple[str, ...]]
    without: tuple[str, str]


@final
@dataclass(frozen=True)
class Scores:
    """How well the numbers of both runs agree."""

    rows: tuple[tuple[str, str, str, str], ...]
    """Number, correlation over heads, its interval, and that of the means of layers."""
    scatters: tuple[Scatter, ...]


@final
@dataclass(frozen=True)
class ComparisonView:
    """Everything that the page of a comparison shows."""

    title: str
    headline: str
    sides: tuple[Side, Side]
    kinds: Mapping[str, Kind]
    kind_rows: tuple[KindRow, ...]
    relations: tuple[RelationPair, ...]
    pairs: tuple[HeadPair, ...]
    """Every head; empty if the runs are over different heads."""
    scores: Scores | None
    sites: tuple[tuple[str, str], ...]
    differ: tuple[tuple[str, str, str], ...]
    """Facts that differ between the runs: name and both values."""
    order: Document | None = None
    """Where both models keep their heads."""
    matched: Document | None = None
    """Heads paired by what they do; None unless that was asked for."""
    warnings: tuple[str, ...] = ()
    """What makes numbers of the runs differ besides heads and data."""


def compare_view(
    one: Analysis,
    other: Analysis,
    found: Comparison,
    names: tuple[str, str],
) -> ComparisonView:
    """The view model of a comparison.

    Args:
        one: the first run.
        other: the second run.
        found: the comparison of the two.
        names: names of the runs.
    """
    runs, leads = (one, other), (leading(one), leading(other))
    kinds = {kind.key: kind for run in runs for kind in kinds_of(run)}
    sides = [
        Side(
            name,
            headline([*its.values()]),
            measured(run.record),
            grids(run, its),
            run.record.signature,
        )
        for run, its, name in zip(runs, leads, names, strict=True)
    ]
    return ComparisonView(
        title=f"{names[0]} and {names[1]}",
        headline=_headline(leads, found),
        sides=(sides[0], sides[1]),
        kinds=kinds,
        kind_rows=_kind_rows(leads, found.is_paired),
        relations=relation_pairs(one, other),
        pairs=_pairs(runs, leads) if found.is_paired else (),
        scores=_scores(one, other, found) if found.is_paired else None,
        sites=site_titles(dict.fromkeys((*one.sites, *other.sites))),
        differ=_differ(one, other),
        order=order_document(found.orders, names) if found.orders else None,
        matched=matching_document(found.matching) if found.matching else None,
        warnings=found.warnings,
    )


def _key(leads: Leading | None) -> str | None:
    return leads.kind.key if leads else None


def _headline(leads: tuple[Found, Found], found: Comparison) -> str:
    """How many heads do the same in both runs, beside what chance gives."""
    one, other = leads
    if not found.is_paired:
        return (
            f"The runs are over different heads ({len(one):,} and {len(other):,}), so this page "
            "compares what heads do, not head by head."
        )
    total = len(one)
    same = sum(_key(one[head]) == _key(other[head]) for head in one)
    chance = agreement_by_chance([*map(_key, one.values())], [*map(_key, other.values())])
    return (
        f"{numbers.count(same)} of {numbers.of(total, 'head', 'heads')} do the same in both "
        f"({numbers.percent(same / total)}; {numbers.percent(chance)} would by chance)."
    )


def agreement_by_chance(one: Sequence[str | None], other: Sequence[str | None]) -> float:
    """Share of heads that would agree if kinds were dealt to heads at random, in both runs.

    The expected agreement of Cohen's kappa.

    >>> agreement_by_chance(["a", "a", "b", "b"], ["a", "b", "b", "b"])
    0.5
    """
    counts = Counter(one), Counter(other)
    return sum(counts[0][kind] * counts[1][kind] for kind in counts[0]) / (len(one) * len(other))


def _kind_rows(leads: tuple[Found, Found], is_paired: bool) -> tuple[KindRow, ...]:
    one, other = leads
    counts = [Counter(map(_key, its.values())) for its in leads]
    both = Counter(
        _key(one[head]) for head in one if is_paired and _key(one[head]) == _key(other[head])
    )
    kinds = [kind for kind, _ in counted([*one.values(), *other.values()])]
    keys = [*((kind, kind.key) for kind in kinds), (None, None)]
    return tuple(
        KindRow(kind, (counts[0][key], counts[1][key]), both[key] if is_paired else None)
        for kind, key in keys
    )


def relation_pairs(one: Analysis, other: Analysis) -> tuple[RelationPair, ...]:
    """Relations that both runs tested, those with the largest difference first."""
    best = [_best(run.traits or {}) for run in (one, other)]
    shared = [relation for relation in best[0] if relation in best[1]]
    shared.sort(key=lambda name: -abs(best[0][name].share - best[1][name].share))
    return tuple(_relation_pair(name, best[0][name], best[1][name]) for name in shared)


def _best(profiles: Profiles) -> dict[str, TraitStrength]:
    """The head that the first half of the corpus chose for each relation, with enough cases."""
    best: dict[str, TraitStrength] = {}
    for traits in profiles.values():
        for trait in traits:
            if trait.relation is None or trait.verdict == "untested":
                continue
            known = best.get(trait.trait)
            if known is None or trait.first_gain > known.first_gain:
                best[trait.trait] = trait
    return best


def _relation_pair(name: str, one: TraitStrength, other: TraitStrength) -> RelationPair:
    ends = [share_interval(each) for each in (one, other)]
    apart = ends[0][1] < ends[1][0] or ends[1][1] < ends[0][0]
    return RelationPair(
        name,
        relation_words(name),
        (_best_of(one), _best_of(other)),
        numbers.points(other.share - one.share),
        apart,
    )


def share_interval(trait: TraitStrength) -> tuple[float, float]:
    """The 90 % interval of a share, from that of its strength, cut to 0 ... 1."""
    low, high = (
        min(1.0, max(0.0, trait.null + each * (trait.attainable - trait.null)))
        for each in (trait.low, trait.high)
    )
    return low, high


def _best_of(trait: TraitStrength) -> Best:
    low, high = share_interval(trait)
    return Best(
        trait.head,
        numbers.percent(trait.share),
        f"{numbers.percent(low)} to {numbers.percent(high)}",
        numbers.percent(trait.null),
        trait.verdict,
        span(trait.share, low, high, trait.null),
    )


def _pairs(runs: tuple[Analysis, Analysis], leads: tuple[Found, Found]) -> tuple[HeadPair, ...]:
    rows = zip(runs[0].rows, runs[1].rows, strict=True)
    return tuple(
        HeadPair(
            a.head,
            _key(leads[0][a.head]) == _key(leads[1][a.head]),
            (_key(leads[0][a.head]) or "", _key(leads[1][a.head]) or ""),
            (_does(runs[0], a.head, leads[0]), _does(runs[1], a.head, leads[1])),
            (without(runs[0], a), without(runs[1], b)),
        )
        for a, b in rows
    )


def _does(run: Analysis, head: str, found: Found) -> tuple[str, ...]:
    """Roles and tendencies of a head, what leads it first."""
    leads = found[head]
    if leads is None:
        return ()
    order = {"role": 0, "tendency": 1}
    traits = [each for each in (run.traits or {}).get(head, ()) if each.verdict in order]
    traits.sort(key=lambda each: (order[each.verdict], -each.strength))
    texts = [f"{leads.verdict}: {leads.says}"]
    texts += [f"{each.verdict}: {finding(each)}" for each in traits]
    return tuple(dict.fromkeys(texts))[:SHOWN]


def _scores(one: Analysis, other: Analysis, found: Comparison) -> Scores:
    rows = []
    for name, rho in found.by_head.items():
        if name in SKIPPED or math.isnan(rho.rho):
            continue
        label = MEASURES[name].label if name in MEASURES else name.replace("_", " ")
        ends = f"{numbers.correlation(rho.low)} to {numbers.correlation(rho.high)}"
        layers = numbers.correlation(found.by_layer[name].rho)
        rows.append((label, numbers.correlation(rho.rho), ends, layers))
    heads = [(row.head, row.site) for row in one.rows]
    pictures = [
        scatter(
            MEASURES[name].label,
            heads,
            [(a.values[name], b.values[name]) for a, b in zip(one.rows, other.rows, strict=True)],
        )
        for name in SCATTERS
        if name in found.by_head
    ]
    return Scores(tuple(rows), tuple(each for each in pictures if len(each.dots) > 1))


def _differ(one: Analysis, other: Analysis) -> tuple[tuple[str, str, str], ...]:
    """What sets the two runs apart: model, corpus, counts, versions and the rest."""
    facts = [
        {
            "model": run.record.model,
            "corpus": ", ".join(run.record.corpora),
            "sentences" if run.record.grid is None else "images": numbers.count(
                run.record.counts.sentences
            ),
            "tokens": numbers.count(run.record.counts.tokens),
            **{f"version of {name}": value for name, value in run.record.versions.items()},
        }
        for run in (one, other)
    ]
    names = dict.fromkeys((*facts[0], *facts[1]))
    rows = [(name, facts[0].get(name, "–"), facts[1].get(name, "–")) for name in names]
    return tuple(row for row in rows if row[1] != row[2])
