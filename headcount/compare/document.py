"""What a comparison of two runs shows: kinds, relations, scores, matched and differing heads."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.figure import Figure

from headcount import numbers
from headcount.compare.comparison import SKIPPED, Comparison, RelationPair, order_document
from headcount.compare.matching import matching_document
from headcount.core import (
    INK,
    LINE,
    SITE_COLOURS,
    SITE_MARKERS,
    Block,
    Chart,
    Code,
    Document,
    Heading,
    Table,
    Text,
    Warned,
    grid_of,
    named_rows,
    panel_grid,
    plain_grid,
    say,
)
from headcount.numbers import effect
from headcount.pages import (
    COLUMNS,
    MEASURES,
    NEITHER,
    SITE_TITLES,
    counted,
    draw_kinds,
    key_of,
    leading,
    legend_patches,
)
from headcount.results import Analysis, TraitStrength
from headcount.vocabulary import relation_words

Names = tuple[str, str]
"""Names of the two runs."""
_CHARTS = ("relation_shares", "scatters")
"""Charts that not every comparison has."""


def comparison_document(
    one: Analysis, other: Analysis, found: Comparison, names: Names
) -> Document:
    """What a comparison of two runs shows."""
    draw = (lambda: side_by_side(one, other, names)) if found.is_paired else lambda: None
    parts = comparison_parts(one, other, found, names)
    drawn = {b.name for part in parts.values() for b in part.blocks if isinstance(b, Chart)}
    return Document(
        f"{names[0]} and {names[1]}",
        (
            *map(Warned, found.warnings),
            Text(found.headline, "lede"),
            *(block for part in parts.values() for block in part.as_part()),
            Chart("comparison", "What leads every head, side by side", draw),
            # Files of an earlier comparison are removed.
            *(Chart(name, "", lambda: None) for name in _CHARTS if name not in drawn),
        ),
    )


def comparison_parts(
    one: Analysis, other: Analysis, found: Comparison, names: Names
) -> dict[str, Document]:
    """The parts of the document, in their order, by the ids of their sections on the page."""
    parts = {"kinds": Document("What heads do", (*_kinds(one, other, found, names),))}
    if found.relations:
        parts["relations"] = Document("Relations", (*_relations(found.relations, names),))
    if found.is_paired:
        parts["scores"] = Document("Scores", (*_scores(one, other, found, names),))
        parts["differ"] = Document("Heads that differ", (*_differ(one, other, found, names),))
    if found.orders:
        parts["order"] = order_document(found.orders, names)
    if found.matching is not None:
        parts["matched"] = matching_document(found.matching)
    return parts | {"methods": Document("How it was measured", (*_methods(one, other, names),))}


def _kinds(one: Analysis, other: Analysis, found: Comparison, names: Names) -> Iterator[Block]:
    """Number of heads that each kind leads, and with each role."""
    leads = leading(one), leading(other)
    counts = [Counter(map(key_of, its.values())) for its in leads]
    both = Counter(key_of(leads[0][head]) for head in found.same)
    kinds = [kind for kind, _ in counted([*leads[0].values(), *leads[1].values()])]
    rows = (
        (label, *(str(its[key]) for its in counts), *([str(both[key])] if found.is_paired else []))
        for label, key in [*((kind.label, kind.key) for kind in kinds), (NEITHER, None)]
    )
    headers = ("what leads them", *names, *(["the same heads"] if found.is_paired else []))
    yield Table.of(headers, rows, "Number of heads of each kind")
    yield Heading("Heads by role")
    roles = (
        (SITE_TITLES.get(site, site), role, str(before), str(after))
        for site, its in found.counts.items()
        for role, (before, after) in its.items()
        if before or after
    )
    yield Table.of(("site", "role", *names), roles, "Number of heads with each role")


def _relations(pairs: tuple[RelationPair, ...], names: Names) -> Iterator[Block]:
    yield Text(
        "For each relation, one half of the corpus chose the head, and the other half measured "
        "it. Position is the share that the best fixed position, or the head’s own ones, explain."
    )
    yield Chart("relation_shares", "Relations in both runs", lambda: relation_shares(pairs, names))
    each = ("head", "share (90 % interval)", "position")
    headers = ["relation", "meaning", *(f"{name}: {what}" for name in names for what in each)]
    rows = (
        (
            pair.relation,
            relation_words(pair.relation, pair.best[0].words),
            *(cell for best in pair.best for cell in _best(best)),
            numbers.points(pair.change),
            "apart" if pair.apart else numbers.UNKNOWN,
        )
        for pair in pairs
    )
    yield Table.of([*headers, "points", "intervals"], rows, "Relations in both runs")


def _best(best: TraitStrength) -> tuple[str, ...]:
    low, high = map(numbers.percent, best.share_interval)
    share = f"{numbers.percent(best.share)} ({low} to {high})"
    return best.head, share, numbers.percent(best.null)


def _scores(one: Analysis, other: Analysis, found: Comparison, names: Names) -> Iterator[Block]:
    rows = list[tuple[str, ...]]()
    for name, over in found.by_head.items():
        if name not in SKIPPED and over.rho == over.rho:
            label = MEASURES[name].label if name in MEASURES else name.replace("_", " ")
            rows.append((label, str(over), numbers.correlation(found.by_layer[name].rho)))
    yield Heading("Rank correlations (Spearman)")
    header = ("number", "head by head, 95 % interval", "means of layers")
    yield Table.of(header, rows)
    if not found.is_one_model:
        yield Text(
            "Models trained independently number their heads by chance: compare their layers, not "
            "their heads."
        )
    yield Chart("scatters", "Every head in both runs", lambda: scatters(one, other, names))


def _differ(one: Analysis, other: Analysis, found: Comparison, names: Names) -> Iterator[Block]:
    """Heads that other kinds lead, then heads with other roles."""
    leads = leading(one), leading(other)
    rows = [
        (head, *(f"{its.verdict}: {its.says}" if its else numbers.UNKNOWN for its in both))
        for head, both in ((head, (leads[0][head], leads[1][head])) for head in leads[0])
        if head not in found.same
    ]
    if rows:
        yield Table.of(("head", *names), rows, "What the heads that differ do")
    else:
        yield Text("None: every head does the same in both.", "lede")
    yield Heading("Heads whose roles differ")
    changes = ((one.head, _named(one.before), _named(one.after)) for one in found.changes)
    if found.changes:
        yield Table.of(("head", *names), changes)
    same, total = found.same_roles, found.same_roles + len(found.changes)
    with_role = numbers.of(total, "head with a role", "heads with a role")
    have = "has" if 1 in (same, total) else "have"
    some = f"{numbers.count(same)} of {with_role} {have} the same roles in both."
    yield Text(some if total else "No head has a role in either run.")


def _named(roles: tuple[str, ...]) -> str:
    return ", ".join(roles) or "none"


def _methods(one: Analysis, other: Analysis, names: Names) -> Iterator[Block]:
    yield Text(
        "A head does the same in both runs if the same kind of trait leads it. By chance means: if "
        "the kinds of each run were dealt to its heads at random (the expected agreement of "
        "Cohen’s kappa)."
    )
    facts = [_facts(run) for run in (one, other)]
    rows = [
        (name, *(its.get(name, "–") for its in facts))
        for name in dict.fromkeys((*facts[0], *facts[1]))
        if facts[0].get(name) != facts[1].get(name)
    ]
    if rows:
        yield Heading("What sets the runs apart")
        yield Table.of(("fact", *names), rows)
    for name, run in zip(names, (one, other), strict=True):
        yield Heading(f"Signature of {name}")
        yield Code(run.record.signature, is_signature=True)


def _facts(run: Analysis) -> dict[str, str]:
    """What can set a run apart: model, corpus, counts and versions."""
    return {
        "model": run.record.model,
        "corpus": ", ".join(run.record.corpora),
        f"{run.record.inputs.item}s": numbers.count(run.record.counts.sentences),
        "tokens": numbers.count(run.record.counts.tokens),
        **{f"version of {name}": value for name, value in run.record.versions.items()},
    }


SCATTERED = ("ablation_delta", "gradient", "relevance", "confidence", "entropy", "positional_share")
"""Numbers that are drawn against each other, if both runs have them."""

_IN_A_ROW = 3
_RUNS = (("#0072B2", "o"), ("#D55E00", "s"))
"""Colour and marker of each run."""


def side_by_side(one: Analysis, other: Analysis, names: tuple[str, str]) -> Figure:
    """Maps of what leads each head, of two runs over one grid of heads."""
    sites = one.by_site()
    layers, heads = one.num_layers, 1 + max(row.index for row in one.rows)
    found = [leading(run) for run in (one, other)]
    width, height = 2 * (0.3 * heads + 0.7) + 0.4, len(sites) * (0.3 * layers + 0.7) + 1.0
    figure, grid = grid_of(len(sites), 2, (max(5.6, width), height))
    for run, column, name, leads in zip((one, other), grid.T, names, found, strict=True):
        for axes, (site, rows) in zip(column, run.by_site(), strict=True):
            plain_grid(axes, 1 + max(row.layer for row in rows), heads)
            draw_kinds(axes, rows, leads)
            axes.set_title(f"{name}: {SITE_TITLES.get(site, site)}")
    handles = legend_patches([each for leads in found for each in leads.values()])
    figure.legend(handles=handles, loc="outside lower center", ncols=min(COLUMNS, len(handles)))
    return figure


def relation_shares(pairs: Sequence[RelationPair], names: tuple[str, str]) -> Figure | None:
    """The chosen heads of both runs with their intervals, beside what positions explain."""
    if not pairs:
        return None
    says = "share of the relation's cases, with its 90 % interval"
    figure, axes = named_rows([pair.relation for pair in pairs], (5.8, 0.34), says)
    for number, (name, (colour, marker)) in enumerate(zip(names, _RUNS, strict=True)):
        places = np.arange(len(pairs)) + (0.16, -0.16)[1 - number]
        best = [pair.best[number] for pair in pairs]
        lows, highs = zip(*(each.share_interval for each in best), strict=True)
        axes.hlines(places, lows, highs, color=colour, linewidth=1.3, alpha=0.7)
        shares = [each.share for each in best]
        axes.scatter(shares, places, s=16, color=colour, marker=marker, zorder=3, label=name)
        label = None if number else "what positions explain"
        nulls = [each.null for each in best]
        axes.scatter(nulls, places, s=40, color=INK, marker="|", zorder=2, label=label)
    figure.legend(loc="outside upper right", ncols=3)
    return figure


def scatters(one: Analysis, other: Analysis, names: tuple[str, str]) -> Figure | None:
    """Numbers of every head in both runs against each other; None without any."""
    shown = [name for name in SCATTERED if len(_known(one, other, name)) > 1]
    if not shown:
        return None
    figure, grid = panel_grid(len(shown), _IN_A_ROW, (2.3, 2.3), (0.4, 0.5))
    for axes, name in zip(grid, shown, strict=True):
        known = _known(one, other, name)
        ends = [each(value for *_, a, b in known for value in (a, b)) for each in (min, max)]
        room = 0.05 * (ends[1] - ends[0]) or 1.0
        limits = (ends[0] - room, ends[1] + room)
        axes.plot(limits, limits, color=LINE, linewidth=0.8, zorder=0)
        for site in dict.fromkeys(site for _, site, *_ in known):
            heads, _, x, y = zip(*(each for each in known if each[1] == site), strict=True)
            colour, marker = SITE_COLOURS.get(site, INK), SITE_MARKERS.get(site, "D")
            title = SITE_TITLES.get(site, site)
            dots = axes.scatter(x, y, s=12, color=colour, marker=marker, alpha=0.7, label=title)
            numbers = zip(heads, x, y, strict=True)
            say(dots, (f"{head}: {effect(a)}, {effect(b)}" for head, a, b in numbers), heads)
        axes.set(title=MEASURES[name].label, xlim=limits, ylim=limits)
        axes.set_box_aspect(1)
    figure.supxlabel(names[0], fontsize=8)
    figure.supylabel(names[1], fontsize=8)
    handles, labels = grid[0].get_legend_handles_labels()
    if len(labels) > 1:
        figure.legend(handles, labels, loc="outside upper left", ncols=3)
    return figure


def _known(one: Analysis, other: Analysis, name: str) -> list[tuple[str, str, float, float]]:
    """Head, site and both numbers of the heads that have them in both runs."""
    values = (
        (a.head, a.site, a.values.get(name, math.nan), b.values.get(name, math.nan))
        for a, b in zip(one.rows, other.rows, strict=True)
    )
    return [each for each in values if all(map(math.isfinite, each[2:]))]
