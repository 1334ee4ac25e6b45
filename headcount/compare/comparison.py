"""Comparison: two runs, head by head, layer by layer and relation by relation.

Comparing head by head is meaningful only if one model was trained further from the other, or both
runs are of one model on different data: models trained independently number their heads by chance.
For those, compare the number of heads with each role, and the means of layers. Runs over different
heads are compared by what their heads do and find, never head by head.

Order of pruning: where two models keep heads, without pairing a head with another. For each score
that both runs have, the share of the total importance is summed by site (effects below 0 count as
0), the mean importance of the *cells* (a layer of a site) is correlated by rank, and at each budget
the most important heads are counted by site. Of curves, the heads that a method kept are counted at
the budgets that both have.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, final

import numpy as np

from headcount import numbers
from headcount.analysis import chosen
from headcount.compare.matching import Matching
from headcount.core import Block, Document, Heading, Table, Text, amount
from headcount.importance import correlation
from headcount.pages import MEASURES, SITE_TITLES, key_of, leading
from headcount.results import (
    MODEL,
    RANDOM,
    READING,
    Analysis,
    Correlation,
    Signature,
    TraitStrength,
)
from headcount.vocabulary import OF_RELATIONS, roles_of

BUDGETS = (0.9, 0.75, 0.5, 0.25, 0.1)
"""Shares of the heads that are kept by a score."""

ORDERS = ("ablation_delta", "gradient", "relevance")
"""Columns of the head table by which heads are ordered; higher = more important."""

NORMALISED = (
    "Gradients divided by the norm of their layer (the default) weigh layers alike: measure them "
    "with --no-normalise to compare layers."
)
"""What a reader must know of normalised scores."""

Cell = tuple[str, int]
"""A site and a layer."""


@final
@dataclass(frozen=True)
class KeptHeads:
    """The heads that both models keep at one budget."""

    share: float
    """Kept heads as a share of all of the first model."""
    kept: tuple[Mapping[str, int], Mapping[str, int]]
    """Number of kept heads of each model, by site."""
    cells: Correlation
    """Spearman's rank correlation of the shares kept of each layer of each site."""


@final
@dataclass(frozen=True)
class PruningOrder:
    """How alike two models order their heads, by one score or one method of a curve."""

    name: str
    """Column of the head table, or method of the curve."""
    importance: Mapping[str, tuple[float, float]]
    """Share of the total importance in each model, by site; empty for a curve."""
    cells: Correlation | None
    """Spearman's rank correlation of the mean importance of each layer of each site; None for a
    curve."""
    budgets: tuple[KeptHeads, ...]
    """Kept heads at each budget, the largest first."""


def pruning_orders(one: Analysis, other: Analysis) -> tuple[PruningOrder, ...]:
    """Every score and every method of a curve by which both runs order their heads."""
    columns = [name for name in ORDERS if _has(one, name) and _has(other, name)]
    by_score = [_by_score(name, one, other) for name in columns]
    return (*by_score, *_by_curve(one, other))


def _has(run: Analysis, column: str) -> bool:
    return all(np.isfinite(row.values.get(column, np.nan)) for row in run.rows)


def _by_score(name: str, one: Analysis, other: Analysis) -> PruningOrder:
    scores = [_column(run, name) for run in (one, other)]
    totals = [_shares(run, its) for run, its in zip((one, other), scores, strict=True)]
    means = [_means(run, its) for run, its in zip((one, other), scores, strict=True)]
    budgets = []
    for share in BUDGETS:
        best = [
            sorted(its, key=lambda head: -its[head])[: round(share * len(its))] for its in scores
        ]
        budgets.append(_kept(share, (one, set(best[0])), (other, set(best[1]))))
    sites = dict.fromkeys((*one.sites, *other.sites))
    importance = {site: (totals[0].get(site, 0.0), totals[1].get(site, 0.0)) for site in sites}
    return PruningOrder(name, importance, _correlated(*means), tuple(budgets))


def _shares(run: Analysis, scores: Mapping[str, float]) -> dict[str, float]:
    """Share of the total importance by site; NaN if there is none."""
    sums = {site: sum(max(0.0, scores[row.head]) for row in rows) for site, rows in run.by_site()}
    total = sum(sums.values())
    return {site: each / total if total else np.nan for site, each in sums.items()}


def _means(run: Analysis, scores: Mapping[str, float]) -> dict[Cell, float]:
    cells: dict[Cell, list[float]] = {}
    for row in run.rows:
        cells.setdefault((row.site, row.layer), []).append(scores[row.head])
    return {cell: float(np.mean(values)) for cell, values in cells.items()}


def _column(run: Analysis, name: str) -> dict[str, float]:
    return {row.head: row.values[name] for row in run.rows}


def _correlated(one: Mapping[Any, float], other: Mapping[Any, float]) -> Correlation:
    """The rank correlation over the heads, or the cells, that both have."""
    shared = [each for each in one if each in other]
    values = [np.array([its[each] for each in shared], dtype=float) for its in (one, other)]
    return correlation(values[0], values[1])


def _kept(share: float, *sides: tuple[Analysis, set[str]]) -> KeptHeads:
    counts = [
        {site: sum(row.head in kept for row in rows) for site, rows in run.by_site()}
        for run, kept in sides
    ]
    cells = [
        _means(run, {row.head: float(row.head in kept) for row in run.rows}) for run, kept in sides
    ]
    return KeptHeads(share, (counts[0], counts[1]), _correlated(*cells))


def _by_curve(one: Analysis, other: Analysis) -> Iterator[PruningOrder]:
    """Kept heads of every method that both curves have, at the budgets that both have."""
    if one.curve is None or other.curve is None:
        return
    found: dict[str, list[KeptHeads]] = {}
    seen = set[tuple[str, int]]()
    for a, b in product(one.curve.points.points, other.curve.points.points):
        share, its = (
            point.keep / run.curve.points.dense.keep if run.curve else np.nan
            for point, run in ((a, one), (b, other))
        )
        is_same = a.method == b.method and abs(share - its) < 0.005 and a.seed == b.seed
        is_choice = a.method != RANDOM and not (a.is_control or b.is_control) and share < 1
        if is_same and is_choice and (a.method, a.keep) not in seen:
            seen.add((a.method, a.keep))
            sides = ((one, set(map(str, a.heads))), (other, set(map(str, b.heads))))
            found.setdefault(a.method, []).append(_kept(share, *sides))
    for method, budgets in found.items():
        budgets.sort(key=lambda each: -each.share)
        yield PruningOrder(f"curve, {method}", {}, None, tuple(budgets))


def order_document(orders: tuple[PruningOrder, ...], names: tuple[str, str]) -> Document:
    """What the orders of two models show: kept heads by site, and how alike layers are."""
    kept = orders[0].budgets[0].kept
    sites = ", ".join(SITE_TITLES.get(each, each).lower() for each in {**kept[0], **kept[1]})
    return Document(
        "Order of pruning",
        (
            Text(
                f"Number of heads kept by site ({sites}) if the most important ones are kept, and "
                "the rank correlation of the shares kept of each layer of each site. No head is "
                f"paired with another. {NORMALISED}",
                "lede",
            ),
            *(block for order in orders for block in _order(order, names)),
        ),
    )


def _order(order: PruningOrder, names: tuple[str, str]) -> Iterator[Block]:
    title = MEASURES[order.name].label if order.name in MEASURES else order.name
    yield Heading(title)
    if order.cells is not None:
        yield Text(_importance(order.importance, order.cells))
    rows = (
        (
            numbers.percent(each.share),
            ", ".join(map(str, each.kept[0].values())),
            ", ".join(map(str, each.kept[1].values())),
            numbers.correlation(each.cells.rho),
        )
        for each in order.budgets
    )
    header = ("kept", *names, "layers of sites")
    yield Table.of(header, rows, f"Kept heads by site: {title}")


def _importance(importance: Mapping[str, tuple[float, float]], cells: Correlation) -> str:
    """Shares of importance by site, and the correlation over cells, in words."""
    parts = [
        f"{SITE_TITLES.get(site, site).lower()} {numbers.percent(a)} and {numbers.percent(b)}"
        for site, (a, b) in importance.items()
    ]
    return (
        f"Share of the total importance: {numbers.listed(parts)}. The means of "
        f"{amount(cells.num_heads, 'layer')} of sites correlate by {cells} (rank correlation)."
    )


@final
@dataclass(frozen=True)
class RelationPair:
    """One relation in both runs."""

    relation: str
    best: tuple[TraitStrength, TraitStrength]
    """The head that was chosen in each run."""

    @property
    def change(self) -> float:
        """Difference of the two shares."""
        return self.best[1].share - self.best[0].share

    @property
    def apart(self) -> bool:
        """Whether the two intervals do not meet."""
        one, other = (each.share_interval for each in self.best)
        return one[1] < other[0] or other[1] < one[0]


def relation_pairs(one: Analysis, other: Analysis) -> tuple[RelationPair, ...]:
    """Relations that both runs tested, those with the largest difference first."""
    if one.traits is None or other.traits is None:
        return ()
    pairs = []
    for role in OF_RELATIONS:
        first, second = chosen(one, role), chosen(other, role)
        shared = [name for name in first if name in second]
        pairs += [RelationPair(name, (first[name], second[name])) for name in shared]
    return tuple(sorted(pairs, key=lambda pair: -abs(pair.change)))


@final
@dataclass(frozen=True)
class Change:
    """A head whose roles differ in the second run."""

    head: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@final
@dataclass(frozen=True)
class Comparison:
    """The similarities and differences of two runs."""

    is_paired: bool
    """Whether both runs are over the same heads; if not, nothing is compared head by head."""
    counts: Mapping[str, Mapping[str, tuple[int, int]]]
    """Number of heads in the first and the second run, by site and role."""
    changes: tuple[Change, ...]
    """Heads whose roles differ, in the order of the table."""
    num_heads: tuple[int, int]
    """Number of heads of each run."""
    same: frozenset[str]
    """Names of the heads that the same kind leads in both runs, or that none leads in either;
    none unless the runs are paired."""
    chance: float
    """Share of heads that would do the same by chance; NaN unless the runs are paired."""
    same_roles: int
    """Number of heads with the same roles in both runs, at least one."""
    by_head: Mapping[str, Correlation]
    """Spearman's rank correlation over heads, by column."""
    by_layer: Mapping[str, Correlation]
    """Spearman's rank correlation over the means of layers, by column."""
    relations: tuple[RelationPair, ...] = ()
    """Relations that both runs tested, those with the largest difference first."""
    orders: tuple[PruningOrder, ...] = ()
    """Where both models keep their heads, by every score or curve that both runs have."""
    is_one_model: bool = False
    """Whether both runs are of the same parameters."""
    matching: Matching | None = None
    """Heads paired by what they do; None unless that was asked for."""
    warnings: tuple[str, ...] = ()
    """What makes the numbers of the two runs differ besides heads and data."""

    @property
    def headline(self) -> str:
        """How many heads do the same in both runs, beside what chance gives."""
        if not self.is_paired:
            one, other = self.num_heads
            return (
                f"The runs are over different heads ({one:,} and {other:,}), so nothing is "
                "compared head by head."
            )
        same, total = len(self.same), self.num_heads[0]
        share, chance = numbers.percent(same / total), numbers.percent(self.chance)
        return (
            f"{numbers.count(same)} of {numbers.of(total, 'head', 'heads')} do the same in both "
            f"({share}; by chance it would be {chance})."
        )


def agreement_by_chance(one: Sequence[str | None], other: Sequence[str | None]) -> float:
    """Share of heads that would agree if kinds were dealt to heads at random, in both runs.

    The expected agreement of Cohen's kappa.

    >>> agreement_by_chance(["a", "a", "b", "b"], ["a", "b", "b", "b"])
    0.5
    """
    counts = Counter(one), Counter(other)
    return sum(counts[0][kind] * counts[1][kind] for kind in counts[0]) / (len(one) * len(other))


def compare(one: Analysis, other: Analysis) -> Comparison:
    """Compare two runs.

    Raises:
        InputError: if they were measured in different ways; names the part of the signature.
    """
    warnings = _warnings(one, other)
    is_paired = [row.head for row in one.rows] == [row.head for row in other.rows]
    pairs = list(zip(one.rows, other.rows, strict=True)) if is_paired else []
    changes = [Change(a.head, a.roles, b.roles) for a, b in pairs if set(a.roles) != set(b.roles)]
    shared = [name for name in one.measures if name in other.measures and is_paired]
    sites = dict.fromkeys((*one.sites, *other.sites))
    keys = [{head: key_of(leads) for head, leads in leading(run).items()} for run in (one, other)]
    same = [head for head in keys[0] if is_paired and keys[0][head] == keys[1][head]]
    return Comparison(
        is_paired=is_paired,
        num_heads=(len(one.rows), len(other.rows)),
        same=frozenset(same),
        chance=agreement_by_chance(*(list(its.values()) for its in keys)) if is_paired else np.nan,
        counts={site: _counts(one, other, site) for site in sites},
        changes=tuple(changes),
        same_roles=sum(bool(a.roles) and set(a.roles) == set(b.roles) for a, b in pairs),
        by_head={name: _correlated(_column(one, name), _column(other, name)) for name in shared},
        by_layer={
            name: _correlated(*(_means(run, _column(run, name)) for run in (one, other)))
            for name in shared
        },
        relations=relation_pairs(one, other),
        orders=pruning_orders(one, other),
        is_one_model=one.record.signed.revision == other.record.signed.revision,
        warnings=warnings,
    )


def _warnings(one: Analysis, other: Analysis) -> tuple[str, ...]:
    """Check that all numbers of two runs were measured alike; warnings of what can't be checked."""
    pairs = [(one.record.signed, other.record.signed)]
    curves = [None if run.curve is None else run.curve.record for run in (one, other)]
    for a, b in ((one.importance, other.importance), curves):
        if a is not None and b is not None and a.signature and b.signature:
            pairs.append((Signature.parse(a.signature), Signature.parse(b.signature)))
    found = (sentence for a, b in pairs for sentence in a.check_same(b, MODEL | READING))
    return tuple(dict.fromkeys(found))


def _counts(one: Analysis, other: Analysis, site: str) -> dict[str, tuple[int, int]]:
    """Number of a site's heads with each role; heads without a role come last."""
    counts = [
        Counter(role for row in run.rows if row.site == site for role in row.roles or ("none",))
        for run in (one, other)
    ]
    roles = (*roles_of((*one.record.traits, *other.record.traits)), "none")
    return {role: (counts[0][role], counts[1][role]) for role in roles}


SKIPPED = ("ablation_low", "ablation_high", "ablation_p", "positional_offset", "rare_cases")
"""Columns that are not scores of heads."""
