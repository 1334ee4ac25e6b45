"""Figures of two runs side by side: maps of heads, relations, and numbers of every head."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from headcount.core import (
    INK,
    LINE,
    SITE_COLOURS,
    SITE_MARKERS,
    new_figure,
    plain_grid,
    say,
)
from headcount.numbers import effect
from headcount.reports.figures.maps import COLUMNS, draw_kinds, legend_patches
from headcount.reports.kinds import leading
from headcount.reports.names import MEASURES, SITE_TITLES
from headcount.reports.relation_pairs import RelationPair, share_interval
from headcount.results import Analysis

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


def relation_shares(pairs: Sequence[RelationPair], names: tuple[str, str]) -> Figure | None:
    """The chosen heads of both runs with their intervals, beside what positions explain."""
    if not pairs:
        return None
    figure = new_figure(5.8, 0.34 * len(pairs) + 0.9)
    axes = figure.subplots()
    for number, (name, (colour, marker)) in enumerate(zip(names, _RUNS, strict=True)):
        places = np.arange(len(pairs)) + (0.16, -0.16)[1 - number]
        best = [pair.best[number] for pair in pairs]
        lows, highs = zip(*map(share_interval, best), strict=True)
        axes.hlines(places, lows, highs, color=colour, linewidth=1.3, alpha=0.7)
        shares = [each.share for each in best]
        axes.scatter(shares, places, s=16, color=colour, marker=marker, zorder=3, label=name)
        label = None if number else "what positions explain"
        nulls = [each.null for each in best]
        axes.scatter(nulls, places, s=40, color=INK, marker="|", zorder=2, label=label)
    axes.set_yticks(range(len(pairs)), [pair.relation for pair in pairs])
    axes.set_ylim(len(pairs) - 0.4, -0.6)
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of the relation's cases, with its 90 % interval")
    figure.legend(loc="outside upper right", ncols=3)
    return figure


def scatters(one: Analysis, other: Analysis, names: tuple[str, str]) -> Figure | None:
    """Numbers of every head in both runs against each other; None without any."""
    shown = [name for name in SCATTERED if len(_known(one, other, name)) > 1]
    if not shown:
        return None
    columns = min(_IN_A_ROW, len(shown))
    rows = -(-len(shown) // columns)
    figure = new_figure(2.3 * columns + 0.4, 2.3 * rows + 0.5)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(shown) :]:
        axes.set_visible(False)
    for axes, name in zip(grid.flat, shown, strict=False):
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
    handles, labels = grid[0, 0].get_legend_handles_labels()
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
