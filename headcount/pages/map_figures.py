"""Figures of the grid of heads: what leads them, and confidence, one panel a site."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch, Rectangle

from headcount.core import ACCENT, INK, LINE, MUTED, SITES, Head, grid_of, panel_grid, plain_grid
from headcount.pages.kinds import Leading, counted, leading, tint, verdicts
from headcount.pages.names import SITE_TITLES
from headcount.results import Analysis, HeadRow

_SCALE = LinearSegmentedColormap.from_list("headcount", ["#eef1ee", "#6fa8ad", "#0c3a52"])
"""The sequential scale of the report."""

DIVERGING = LinearSegmentedColormap.from_list("signed", ["#b34700", "#f1efe9", "#0c5a86"])
"""The diverging scale of the report."""

LEGEND = 5.6
"""Width of the legend, in inches."""

COLUMNS = 3
"""Number of entries of the legend side by side."""

BAR = 2.2
"""Height of the label beside the colour bar of confidence, in inches."""


def role_map(run: Analysis) -> Figure:
    """Layers x heads, by what leads each head: roles solid and framed, tendencies pale."""
    found = leading(run)
    handles = legend_patches(found.values())
    lines = -(-len(handles) // COLUMNS)
    figure, all_axes = _site_axes(run, extra=0.25 * lines, least=(LEGEND, 0.0))
    for axes, (_, rows) in zip(all_axes, run.by_site(), strict=True):
        draw_kinds(axes, rows, found)
    figure.legend(handles=handles, loc="outside lower center", ncols=min(COLUMNS, len(handles)))
    return figure


def legend_patches(found: Iterable[Leading | None]) -> list[Patch]:
    """The legend of maps: kinds with their letters and numbers, then roles and tendencies."""
    each = list(found)
    kinds = [
        Patch(facecolor=kind.role.colour, label=f"{kind.letter}  {kind.label} {number}")
        for kind, number in counted(each)
    ]
    role, tend, rest = verdicts(each)
    how = [
        Patch(facecolor=MUTED, edgecolor=INK, linewidth=1.2, label=f"framed: role {role}"),
        Patch(facecolor=_mixed(MUTED, 0.3), label=f"pale: tendency {tend}"),
        Patch(facecolor="white", edgecolor=LINE, label=f"empty: neither {rest}"),
    ]
    return kinds + how


def confidence_map(run: Analysis) -> Figure:
    """Layers x heads, shaded by confidence; hatched if it could not be measured."""
    figure, all_axes = _site_axes(run, extra=0.0, least=(0.0, BAR))
    images = [
        draw_numbers(axes, rows, "confidence", 1.0)
        for axes, (_, rows) in zip(all_axes, run.by_site(), strict=True)
    ]
    bar = figure.colorbar(images[-1], ax=all_axes, shrink=0.8, pad=0.02)
    bar.set_label("confidence (mean largest weight)")
    return figure


def draw_kinds(axes: Axes, rows: list[HeadRow], found: Mapping[str, Leading | None]) -> None:
    """Draw the heads of one site by what leads them; heads that nothing leads are empty."""
    for row in rows:
        _draw_cell(axes, row, found[row.head])


def draw_numbers(axes: Axes, rows: list[HeadRow], column: str, high: float) -> AxesImage:
    """Draw the heads of one site, shaded by a number from 0 up; hatched where it is unknown."""
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
    return axes.imshow(masked, cmap=_SCALE, vmin=0.0, vmax=high, aspect="auto")


def _shape(rows: list[HeadRow]) -> tuple[int, int]:
    return max(row.layer for row in rows) + 1, max(row.index for row in rows) + 1


def _site_axes(
    run: Analysis, extra: float, least: tuple[float, float]
) -> tuple[Figure, list[Axes]]:
    """One map per site side by side; cells have a fixed size, the figure at least size `least`."""
    sites = run.by_site()
    shapes = [_shape(rows) for _, rows in sites]
    columns = [shape[1] for shape in shapes]
    width = 0.34 * sum(columns) + 0.7 * len(sites) + 0.8
    height = 0.3 * max(shape[0] for shape in shapes) + 0.8 + extra
    size = (max(least[0], width), max(least[1], height))
    figure, grid = grid_of(1, len(sites), size, width_ratios=columns)
    for axes, shape, (site, _) in zip(grid.flat, shapes, sites, strict=True):
        plain_grid(axes, *shape)
        axes.set_ylabel("layer" if axes is grid.flat[0] else "")
        axes.set_title(SITE_TITLES.get(site, site))
    return figure, list(grid.flat)


def _draw_cell(axes: Axes, row: HeadRow, leads: Leading | None) -> None:
    left, top, size = row.index - 0.46, row.layer - 0.46, 0.92
    if leads is None:
        axes.add_patch(Rectangle((left, top), size, size, facecolor="white", edgecolor=LINE))
        return
    is_role, role = leads.verdict == "role", leads.kind.role
    colour = _mixed(role.colour, tint(leads) / 100)
    axes.add_patch(
        Rectangle(
            (left, top),
            size,
            size,
            facecolor=colour,
            edgecolor=INK,
            linewidth=1.1 if is_role else 0.0,
        )
    )
    axes.text(
        row.index,
        row.layer,
        leads.kind.letter,
        color=role.ink if is_role else INK,
        weight="bold" if is_role else "normal",
        ha="center",
        va="center_baseline",
        size=8 if len(leads.kind.letter) == 1 else 6,
    )


def _mixed(colour: str, share: float) -> str:
    """A colour on white paper, as strong as the share."""
    rgb = np.asarray(to_rgb(colour))
    return to_hex(tuple(1 - share * (1 - rgb)))


def share_map(shares: Mapping[str, float], label: str, text: Callable[[float], str]) -> Figure:
    """Layers x heads of each site, shaded by a share; the head with the largest is marked."""
    by_site: dict[str, dict[tuple[int, int], float]] = {}
    for name, share in shares.items():
        head = Head.parse(name)
        by_site.setdefault(head.site, {})[head.layer, head.index] = share
    sites = [site for site in SITES if site in by_site]
    figure, grid = panel_grid(len(sites), len(sites), (4.2, 3.2), (0.0, 0.0))
    image = None
    for axes, site in zip(grid, sites, strict=True):
        its = by_site[site]
        shape = tuple(1 + max(each[axis] for each in its) for axis in (0, 1))
        shown = np.full(shape, np.nan)
        for place, share in its.items():
            shown[place] = share
        plain_grid(axes, *shape)
        image = axes.imshow(shown, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        first = max(its, key=its.__getitem__)
        axes.plot(first[1], first[0], "s", ms=13, mfc="none", mec=ACCENT, mew=1.4)
        axes.set_title(f"{SITE_TITLES.get(site, site)}: best {text(its[first])}")
    if image is not None:
        bar = figure.colorbar(image, ax=grid, shrink=0.8)
        bar.set_label(label)
    return figure
