"""Order of pruning: where two models keep heads, without pairing a head with another.

Heads of models trained apart can't be compared by their numbers, but sites and layers can. For each
score that both runs have, the share of the total importance is summed by site (effects below 0
count as 0), the mean importance of the *cells* (a layer of a site) is correlated by rank, and at
each budget the most important heads are counted by site. Of curves, the heads that a method kept
are counted at the budgets that both have.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import final

import numpy as np

from headcount import numbers
from headcount.core import Block, Document, Heading, Table, Text, amount
from headcount.importance import correlation
from headcount.reports.names import MEASURES, SITE_TITLES
from headcount.results import RANDOM, Analysis, Correlation

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
    scores = [{row.head: row.values[name] for row in run.rows} for run in (one, other)]
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
    return PruningOrder(name, importance, _over_cells(*means), tuple(budgets))


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


def _over_cells(one: Mapping[Cell, float], other: Mapping[Cell, float]) -> Correlation:
    shared = [cell for cell in one if cell in other]
    values = [np.array([its[cell] for cell in shared], dtype=float) for its in (one, other)]
    return correlation(values[0], values[1])


def _kept(share: float, *sides: tuple[Analysis, set[str]]) -> KeptHeads:
    counts = [
        {site: sum(row.head in kept for row in rows) for site, rows in run.by_site()}
        for run, kept in sides
    ]
    cells = [
        _means(run, {row.head: float(row.head in kept) for row in run.rows}) for run, kept in sides
    ]
    return KeptHeads(share, (counts[0], counts[1]), _over_cells(*cells))


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
