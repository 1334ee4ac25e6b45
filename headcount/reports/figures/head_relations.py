"""Figures of what heads have in common: a map of their distances, and error rates of links."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from headcount.core import (
    ACCENT,
    FORMATS,
    INK,
    LINE,
    MUTED,
    SITES,
    Head,
    new_figure,
    plain_grid,
    save,
    styled,
)
from headcount.reports.names import SITE_TITLES, role_names
from headcount.results import Alignment, Clusters, read_alignment, read_clusters

_PANEL = 3.4
"""Width and height of one site's map, in inches."""


def cluster_map(clusters: Clusters, roles: Mapping[str, Sequence[str]] | None = None) -> Figure:
    """A map of each site, on which heads that look at the same places are near each other.

    Args:
        clusters: the places of the heads.
        roles: roles by head, the main one first, which give the colours; None colours by layer.
    """
    by_site: dict[str, list[tuple[Head, float, float]]] = {}
    for place in clusters.places:
        head = Head.parse(place.head)
        by_site.setdefault(head.site, []).append((head, place.x, place.y))
    colours = _colours(clusters, roles)
    figure = new_figure(_PANEL * len(by_site) + 0.4, _PANEL + 0.9)
    grid = figure.subplots(1, len(by_site), squeeze=False)
    for axes, (site, places) in zip(grid.flat, by_site.items(), strict=True):
        axes.set_title(SITE_TITLES.get(site, site))
        axes.set_aspect("equal", adjustable="datalim")
        axes.set_xticks([])
        axes.set_yticks([])
        for head, x, y in places:
            axes.plot(x, y, "o", ms=9, color=colours[str(head)][1], mec=LINE, mew=0.4)
            label = f"{head.layer}.{head.index}"
            axes.annotate(label, (x, y), size=4, ha="center", va="center", color=INK)
        axes.set_xlabel("distance in nats per query, in two dimensions", color=MUTED)
    legend = dict.fromkeys(colours.values())
    handles = [
        Line2D([], [], marker="o", ls="", color=colour, mec=LINE, mew=0.4, label=name)
        for name, colour in sorted(legend)
    ]
    figure.legend(
        handles=handles, loc="outside lower center", ncols=min(3 * len(by_site), len(handles))
    )
    return figure


def _colours(
    clusters: Clusters, roles: Mapping[str, Sequence[str]] | None
) -> dict[str, tuple[str, str]]:
    """Name in the legend and colour of every head."""
    heads = [place.head for place in clusters.places]
    if roles is not None:
        known = role_names(name for names in roles.values() for name in names)
        main = {head: next(iter(roles.get(head, ())), None) for head in heads}
        none = ("no role", "#ffffff")
        return {
            head: none if role is None else (role, known[role].colour)
            for head, role in main.items()
        }
    layers = {head: Head.parse(head).layer for head in heads}
    shades = max(1, max(layers.values()))
    return {head: (f"layer {layer:>2}", _shade(layer / shades)) for head, layer in layers.items()}


def _shade(share: float) -> str:
    """A colour from light to dark blue."""
    light, dark = np.array([225, 238, 238]), np.array([90, 150, 190])
    red, green, blue = (light + share * (dark - light)).round().astype(int).tolist()
    return f"#{red:02x}{green:02x}{blue:02x}"


def alignment_map(alignment: Alignment) -> Figure:
    """Layers x heads, shaded by the lowest error rate of each head; the best head is marked."""
    rows = alignment.ranked()
    best: dict[str, dict[tuple[int, int], float]] = {}
    for row in rows:
        head = Head.parse(row.head)
        best.setdefault(head.site, {})[head.layer, head.index] = row.aer
    sites = [site for site in SITES if site in best]
    figure = new_figure(4.2 * len(sites), 3.2)
    grid = figure.subplots(1, len(sites), squeeze=False)
    image = None
    for axes, site in zip(grid.flat, sites, strict=True):
        shape = tuple(1 + max(each[axis] for each in best[site]) for axis in (0, 1))
        rates = np.full(shape, np.nan)
        for place, rate in best[site].items():
            rates[place] = rate
        plain_grid(axes, *shape)
        image = axes.imshow(1 - rates, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        first = min(best[site], key=best[site].__getitem__)
        axes.plot(first[1], first[0], "s", ms=13, mfc="none", mec=ACCENT, mew=1.4)
        axes.set_title(f"{SITE_TITLES.get(site, site)}: best {best[site][first]:.3f}")
    if image is not None:
        bar = figure.colorbar(image, ax=grid.ravel().tolist(), shrink=0.8)
        bar.set_label("1 - alignment error rate")
    return figure


def write_cluster_figures(
    folder: Path,
    roles: Mapping[str, Sequence[str]] | None = None,
    formats: Sequence[str] = FORMATS,
) -> list[Path]:
    """Draw the map of the heads of a folder with clusters into `folder/figures`.

    Raises:
        InputError: if the folder has no clusters, or they are damaged.
    """
    found = read_clusters(folder)
    with styled():
        figure = cluster_map(found, roles)
        return [save(figure, folder / "figures" / f"clusters.{kind}") for kind in formats]


def write_alignment_figures(folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Draw the error rates of a folder with an alignment into `folder/figures`.

    Raises:
        InputError: if the folder has no alignment, or it is damaged.
    """
    found = read_alignment(folder)
    with styled():
        figure = alignment_map(found)
        return [save(figure, folder / "figures" / f"alignment.{kind}") for kind in formats]
