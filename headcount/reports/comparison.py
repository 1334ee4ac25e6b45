"""Comparison: two runs, head by head and layer by layer.

Comparing head by head is meaningful only if one model was trained further from the other, or both
runs are of one model on different data: models trained independently number their heads by chance.
For those, compare the number of heads with each role, and the means of layers. Runs over different
heads are compared by what their heads do and find, never head by head.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
from matplotlib.figure import Figure

from headcount.core import (
    Block,
    Chart,
    Document,
    Heading,
    Table,
    Text,
    Warned,
    new_figure,
    plain_grid,
)
from headcount.importance import correlation
from headcount.reports.documents.matching import matching_document
from headcount.reports.figures.maps import COLUMNS, draw_kinds, legend_patches
from headcount.reports.kinds import leading
from headcount.reports.names import MEASURES, SITE_TITLES
from headcount.reports.pruning_order import PruningOrder, order_document, pruning_orders
from headcount.results import (
    MODEL,
    READING,
    Analysis,
    Correlation,
    HeadRow,
    Matching,
    Signature,
    signed,
)


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
    same_roles: int
    """Number of heads with the same roles in both runs, at least one."""
    by_head: Mapping[str, Correlation]
    """Spearman's rank correlation over heads, by column."""
    by_layer: Mapping[str, Correlation]
    """Spearman's rank correlation over the means of layers, by column."""
    orders: tuple[PruningOrder, ...] = ()
    """Where both models keep their heads, by every score or curve that both runs have."""
    matching: Matching | None = None
    """Heads paired by what they do; None unless that was asked for."""
    warnings: tuple[str, ...] = ()
    """What makes the numbers of the two runs differ besides heads and data."""


def compare(one: Analysis, other: Analysis) -> Comparison:
    """Compare two runs.

    Raises:
        InputError: if they were measured in different ways; names the part of the signature.
    """
    warnings = _warnings(one, other)
    is_paired = [row.head for row in one.rows] == [row.head for row in other.rows]
    if not is_paired:
        sites = dict.fromkeys((*one.sites, *other.sites))
        counts = {site: _counts(one, other, site) for site in sites}
        return Comparison(
            is_paired=False,
            counts=counts,
            changes=(),
            same_roles=0,
            by_head={},
            by_layer={},
            orders=pruning_orders(one, other),
            warnings=warnings,
        )
    pairs = list(zip(one.rows, other.rows, strict=True))
    changes = [Change(a.head, a.roles, b.roles) for a, b in pairs if set(a.roles) != set(b.roles)]
    same = sum(bool(a.roles) and set(a.roles) == set(b.roles) for a, b in pairs)
    shared = [name for name in one.measures if name in other.measures]
    return Comparison(
        is_paired=True,
        counts={site: _counts(one, other, site) for site in one.sites},
        changes=tuple(changes),
        same_roles=same,
        by_head={
            name: correlation(_of_heads(one, name), _of_heads(other, name)) for name in shared
        },
        by_layer={
            name: correlation(_of_layers(one, name), _of_layers(other, name)) for name in shared
        },
        orders=pruning_orders(one, other),
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
    roles = (*one.record.inputs.roles, "none")
    return {role: (counts[0][role], counts[1][role]) for role in roles}


def _of_heads(run: Analysis, column: str) -> np.ndarray:
    return np.array([row.values[column] for row in run.rows])


def _of_layers(run: Analysis, column: str) -> np.ndarray:
    layers: dict[tuple[str, int], list[HeadRow]] = {}
    for row in run.rows:
        layers.setdefault(row.layer_id, []).append(row)
    return np.array([np.mean([row.values[column] for row in rows]) for rows in layers.values()])


SKIPPED = ("ablation_low", "ablation_high", "ablation_p", "positional_offset", "rare_cases")
"""Columns that are not scores of heads."""


def comparison_document(
    found: Comparison, names: tuple[str, str], draw: Callable[[], Figure | None]
) -> Document:
    """What a comparison of two runs shows.

    Args:
        found: the comparison.
        names: names of the runs.
        draw: draws both runs side by side; None if they are over different heads.
    """
    orders = found.orders
    parts: list[Document] = [] if found.matching is None else [matching_document(found.matching)]
    if orders:
        parts = [order_document(orders, names), *parts]
    others = Text("The runs are over different heads, so nothing is compared head by head.")
    return Document(
        f"{names[0]} and {names[1]}",
        (
            *map(Warned, found.warnings),
            Heading("Heads by role"),
            _roles(found, names),
            *((*_changes(found, names), *_correlations(found)) if found.is_paired else (others,)),
            *(block for part in parts for block in part.as_part()),
            Chart("comparison", "What leads every head, side by side", draw),
        ),
    )


def _roles(found: Comparison, names: tuple[str, str]) -> Table:
    rows = (
        (SITE_TITLES.get(site, site), role, str(before), str(after))
        for site, counts in found.counts.items()
        for role, (before, after) in counts.items()
        if before or after
    )
    return Table.of(("site", "role", *names), rows, "Number of heads with each role")


def _changes(found: Comparison, names: tuple[str, str]) -> Iterator[Block]:
    title = "Heads whose roles differ"
    yield Heading(title)
    rows = ((one.head, _named(one.before), _named(one.after)) for one in found.changes)
    if found.changes:
        yield Table.of(("head", *names), rows, title)
    have = "head has" if found.same_roles == 1 else "heads have"
    none = "" if found.changes else "None. "
    yield Text(f"{none}{found.same_roles:,} {have} the same roles in both.")


def _correlations(found: Comparison) -> Iterator[Block]:
    rows = list[tuple[str, ...]]()
    for name, over in found.by_head.items():
        if name not in SKIPPED and over.rho == over.rho:
            layers = found.by_layer[name].rho
            label = MEASURES[name].label if name in MEASURES else name
            rows.append((label, str(over), signed(layers) if layers == layers else "–"))
    title = "Rank correlations (Spearman)"
    yield Heading(title)
    header = ("number", "head by head, 95 % interval", "means of layers")
    yield Table.of(header, rows, title)
    yield Text(
        "Models trained independently number their heads by chance: compare their layers, not "
        "their heads."
    )


def _named(roles: tuple[str, ...]) -> str:
    return ", ".join(roles) or "none"


def side_by_side(one: Analysis, other: Analysis, names: tuple[str, str]) -> Figure:
    """Maps of what leads each head, of two runs over one grid of heads."""
    sites = one.by_site()
    layers, heads = one.num_layers, 1 + max(row.index for row in one.rows)
    found = [leading(run) for run in (one, other)]
    width, height = 2 * (0.3 * heads + 0.7) + 0.4, len(sites) * (0.3 * layers + 0.7) + 1.0
    figure = new_figure(max(5.6, width), height)
    grid = figure.subplots(len(sites), 2, squeeze=False)
    for run, column, name, leads in zip((one, other), grid.T, names, found, strict=True):
        for axes, (site, rows) in zip(column, run.by_site(), strict=True):
            plain_grid(axes, 1 + max(row.layer for row in rows), heads)
            draw_kinds(axes, rows, leads)
            axes.set_title(f"{name}: {SITE_TITLES.get(site, site)}")
    handles = legend_patches([each for leads in found for each in leads.values()])
    figure.legend(handles=handles, loc="outside lower center", ncols=min(COLUMNS, len(handles)))
    return figure
