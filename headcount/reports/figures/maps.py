"""Figures of the grid of heads: roles and confidence, layers x heads, one panel per site."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch, Rectangle

from headcount.core import LINE, new_figure, plain_grid
from headcount.reports.names import SITE_TITLES, RoleName, role_names
from headcount.results import HeadRow, Run

_SCALE = LinearSegmentedColormap.from_list("headcount", ["#eef1ee", "#6fa8ad", "#0c3a52"])
"""The sequential scale of the report."""

LEGEND = 4.8
"""Width of four roles side by side, in inches."""

BAR = 2.2
"""Height of the label beside the colour bar of confidence, in inches."""


def role_map(run: Run) -> Figure:
    """Layers x heads, coloured by role; a head with several roles is split."""
    names = role_names(name for row in run.heads for name in row.roles)
    figure, all_axes = _site_axes(run, extra=0.5, least=(LEGEND, 0.0))
    for axes, (_, rows) in zip(all_axes, run.by_site(), strict=True):
        draw_roles(axes, rows, tuple(names))
    patches = [
        Patch(facecolor=role.colour, label=f"{role.abbreviation}  {role.name}")
        for role in names.values()
    ]
    patches.append(Patch(facecolor="white", edgecolor=LINE, label="no role"))
    figure.legend(handles=patches, loc="outside lower center", ncols=min(4, len(patches)))
    return figure


def confidence_map(run: Run) -> Figure:
    """Layers x heads, shaded by confidence; hatched if it could not be measured."""
    figure, all_axes = _site_axes(run, extra=0.0, least=(0.0, BAR))
    images = [
        draw_numbers(axes, rows, "confidence", 0.0, 1.0)
        for axes, (_, rows) in zip(all_axes, run.by_site(), strict=True)
    ]
    bar = figure.colorbar(images[-1], ax=all_axes, shrink=0.8, pad=0.02)
    bar.set_label("confidence (mean largest weight)")
    return figure


def draw_roles(axes: Axes, rows: list[HeadRow], names: Sequence[str]) -> None:
    """Draw the heads of one site, coloured by role; roles not in `names` are left out."""
    roles = role_names(names)
    for row in rows:
        _split_cell(axes, row, [roles[name] for name in row.roles if name in roles])


def draw_numbers(
    axes: Axes, rows: list[HeadRow], column: str, low: float, high: float
) -> AxesImage:
    """Draw the heads of one site, shaded by one of their numbers; hatched where it is unknown."""
    shape = _shape(rows)
    grid = np.full(shape, np.nan)
    for row in rows:
        grid[row.layer, row.index] = row.values[column]
    axes.add_patch(
        Rectangle(
            (-0.5, -0.5),
            shape[1],
            shape[0],
            hatch="////",
            facecolor="none",
            edgecolor=LINE,
            linewidth=0,
            zorder=-1,
        )
    )
    masked = np.ma.masked_invalid(grid)
    return axes.imshow(masked, cmap=_SCALE, vmin=low, vmax=high, aspect="auto")


def _shape(rows: list[HeadRow]) -> tuple[int, int]:
    return max(row.layer for row in rows) + 1, max(row.index for row in rows) + 1


def _site_axes(run: Run, extra: float, least: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    """One map per site side by side; cells have a fixed size, the figure at least size `least`."""
    sites = run.by_site()
    shapes = [_shape(rows) for _, rows in sites]
    columns = [shape[1] for shape in shapes]
    width = 0.34 * sum(columns) + 0.7 * len(sites) + 0.8
    height = 0.3 * max(shape[0] for shape in shapes) + 0.8 + extra
    figure = new_figure(max(least[0], width), max(least[1], height))
    grid = figure.subplots(1, len(sites), squeeze=False, width_ratios=columns)
    for axes, shape, (site, _) in zip(grid.flat, shapes, sites, strict=True):
        plain_grid(axes, *shape)
        axes.set_ylabel("layer" if axes is grid.flat[0] else "")
        axes.set_title(SITE_TITLES.get(site, site))
    return figure, list(grid.flat)


def _split_cell(axes: Axes, row: HeadRow, roles: list[RoleName]) -> None:
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
