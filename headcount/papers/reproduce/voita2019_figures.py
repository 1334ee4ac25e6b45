"""Figures of Analyzing Multi-Head Self-Attention: maps of functions, positions, rare tokens.

Reference: Voita et al. (2019), figures 1, 3 and 5, https://arxiv.org/abs/1905.09418
"""

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from headcount.core import ACCENT, LINE, grid_of, plain_grid
from headcount.pages import SITE_TITLES, draw_numbers
from headcount.results import Analysis, HeadRow
from headcount.vocabulary import RoleEntry, roles_named

FUNCTIONS = ("positional", "syntactic", "rare")
"""The paper's functions of heads; our other roles do not count here."""

RELATIONS = ("nsubj", "obj", "amod", "advmod")
"""The relations of table 1 and figure 3."""

FUNCTION = "function (Po positional, Sy syntactic, Ra rare)"

REACH = 7
"""Largest position that the histograms show on either side."""


def function_maps(run: Analysis) -> Figure:
    """Relevance, confidence and functions of all heads, one row of maps per site."""
    sites = run.by_site()
    layers = max(row.layer for row in run.rows) + 1
    columns = max(row.index for row in run.rows) + 1
    size = (3 * (0.3 * columns + 0.6) + 0.6, len(sites) * (0.3 * layers + 0.7) + 0.5)
    figure, grid = grid_of(len(sites), 3, size)
    largest = max(row.values["relevance"] for row in run.rows)
    for (site, rows), line in zip(sites, grid, strict=True):
        for axes in line:
            plain_grid(axes, max(row.layer for row in rows) + 1, columns)
        draw_numbers(line[0], rows, "relevance", largest)
        draw_numbers(line[1], rows, "confidence", 1.0)
        _draw_functions(line[2], rows)
        for axes, title in zip(line, ("relevance", "confidence", FUNCTION), strict=True):
            axes.set_title(title)
        line[0].set_ylabel(f"{SITE_TITLES.get(site, site)}\nlayer")
    return figure


def rare_maps(run: Analysis) -> Figure | None:
    """Share of queries that look most at one of the two rarest tokens, one map per site.

    None if no sentence had a rare enough token to measure.
    """
    sites = [(site, rows) for site, rows in run.by_site() if not all(map(_rare_is_unknown, rows))]
    if not sites:
        return None
    layers = max(row.layer for _, rows in sites for row in rows) + 1
    columns = max(row.index for _, rows in sites for row in rows) + 1
    size = (len(sites) * (0.3 * columns + 0.7) + 0.9, 0.3 * layers + 1.0)
    figure, (grid,) = grid_of(1, len(sites), size)
    for (site, rows), axes in zip(sites, grid, strict=True):
        plain_grid(axes, max(row.layer for row in rows) + 1, columns)
        image = draw_numbers(axes, rows, "rare2_share", 1.0)
        axes.set_title(SITE_TITLES.get(site, site))
    grid[0].set_ylabel("layer")
    bar = figure.colorbar(image, ax=list(grid), shrink=0.8, pad=0.02)
    bar.set_label("to one of the two rarest")
    return figure


def _rare_is_unknown(row: HeadRow) -> bool:
    return math.isnan(row.values["rare2_share"])


def positions(offsets: dict[str, dict[int, int]]) -> Figure:
    """Positions of dependents relative to their head, in words; one panel per relation."""
    figure, (grid,) = grid_of(1, len(RELATIONS), (6.6, 1.8), sharey=True)
    places = [place for place in range(-REACH, REACH + 1) if place]
    for axes, relation in zip(grid, RELATIONS, strict=True):
        counts = offsets.get(relation, {})
        total = sum(counts.values()) or 1
        axes.bar(places, [counts.get(place, 0) / total for place in places], color=ACCENT)
        axes.set_title(relation)
        axes.set_xticks([-5, -1, 1, 5])
    figure.supxlabel("position of the dependent − position of its head, words", fontsize=8)
    figure.supylabel("share of cases", fontsize=8)
    return figure


def _draw_functions(axes: Axes, rows: list[HeadRow]) -> None:
    """Draw the heads of one site, coloured by function."""
    roles = roles_named(FUNCTIONS)
    for row in rows:
        _split_cell(axes, row, [roles[name] for name in row.roles if name in roles])


def _split_cell(axes: Axes, row: HeadRow, roles: list[RoleEntry]) -> None:
    """Draw a cell in horizontal bands, the main role on top; an outline if there is no role."""
    left, top, size = row.index - 0.46, row.layer - 0.46, 0.92
    if not roles:
        axes.add_patch(Rectangle((left, top), size, size, facecolor="white", edgecolor=LINE))
    height = size / max(1, len(roles))
    for band, role in enumerate(roles):
        start = (left, top + band * height)
        axes.add_patch(Rectangle(start, size, height, facecolor=role.colour, linewidth=0))
        axes.text(
            row.index,
            top + (band + 0.5) * height,
            role.abbreviation,
            color=role.ink,
            ha="center",
            va="center_baseline",
            size=6 if len(roles) == 1 else 4.5,
        )
