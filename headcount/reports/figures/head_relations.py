"""Figures of distances between heads, of links between words, and of antecedents."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from headcount.core import ACCENT, MUTED, ON_MARK, SITES, Head, amount, new_figure, plain_grid
from headcount.reports.names import SITE_TITLES
from headcount.results import Alignment, Clusters, Coreference
from headcount.vocabulary import roles_named

_PANEL = 3.4
"""Width and height of one site's map, in inches."""
_NAMED = 26
"""Largest number of rows of a map that have their names beside them: more would overlap."""


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
        heads, xs, ys = zip(*places, strict=True)
        shades = [colours[str(head)][1] for head in heads]
        dots = axes.scatter(xs, ys, s=81, c=shades, edgecolors=MUTED, linewidths=0.4, zorder=2)
        dots.set_urls([f"#{head}" for head in heads])  # the cards of a page
        for head, x, y in places:
            label = f"{head.layer}.{head.index}"
            axes.annotate(label, (x, y), size=4, ha="center", va="center", color=ON_MARK)
        axes.set_xlabel("distance in nats per query, in two dimensions", color=MUTED)
    legend = dict.fromkeys(colours.values())
    handles = [
        Line2D([], [], marker="o", ls="", color=colour, mec=MUTED, mew=0.4, label=name)
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
        known = roles_named(name for names in roles.values() for name in names)
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


def distance_matrix(clusters: Clusters) -> Figure:
    """Distances between all heads of each site, in the order of the hierarchy: dark is near."""
    sites = dict.fromkeys(Head.parse(place.head).site for place in clusters.places)
    figure = new_figure(_PANEL * len(sites) + 1.0, _PANEL + 0.5)
    grid = figure.subplots(1, len(sites), squeeze=False)
    distance = {
        frozenset((row["head_a"], row["head_b"])): row["distance"]
        for row in clusters.distances.to_dict("records")
    }
    largest = max(distance.values(), default=1.0)
    image = None
    for axes, site in zip(grid.flat, sites, strict=True):
        places = [each for each in clusters.places if Head.parse(each.head).site == site]
        heads = [each.head for each in sorted(places, key=lambda each: each.order)]
        rows = [[distance.get(frozenset((a, b)), 0.0) for b in heads] for a in heads]
        image = axes.imshow(np.array(rows), cmap="Blues_r", vmin=0, vmax=largest)
        named = range(0, len(heads), -(-len(heads) // _NAMED))
        labels = [heads[place].partition(".")[2] for place in named]
        axes.set_xticks(named, labels, rotation=90, fontsize=6)
        axes.set_yticks(named, labels, fontsize=6)
        axes.tick_params(length=0, pad=1)
        axes.set_title(SITE_TITLES.get(site, site))
    if image is not None:
        bar = figure.colorbar(image, ax=grid.ravel().tolist(), shrink=0.8)
        bar.set_label("distance in nats per query")
    return figure


def alignment_map(alignment: Alignment) -> Figure:
    """Layers x heads, shaded by the lowest error rate of each head; the best head is marked."""
    shares = {row.head: 1 - row.aer for row in alignment.ranked()}
    return _share_map(shares, "1 - alignment error rate", lambda share: f"{1 - share:.3f}")


def coreference_map(coreference: Coreference) -> Figure:
    """Layers x heads, shaded by the share of antecedents that are right; the best is marked."""
    shares = {row.head: row.accuracy for row in coreference.ranked()}
    return _share_map(shares, "share of mentions with a right antecedent", lambda s: f"{s:.3f}")


def _share_map(shares: Mapping[str, float], label: str, text: Callable[[float], str]) -> Figure:
    """Layers x heads of each site, shaded by a share; the head with the largest is marked."""
    by_site: dict[str, dict[tuple[int, int], float]] = {}
    for name, share in shares.items():
        head = Head.parse(name)
        by_site.setdefault(head.site, {})[head.layer, head.index] = share
    sites = [site for site in SITES if site in by_site]
    figure = new_figure(4.2 * len(sites), 3.2)
    grid = figure.subplots(1, len(sites), squeeze=False)
    image = None
    for axes, site in zip(grid.flat, sites, strict=True):
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
        bar = figure.colorbar(image, ax=grid.ravel().tolist(), shrink=0.8)
        bar.set_label(label)
    return figure


def coreference_kinds(coreference: Coreference) -> Figure | None:
    """The best head of half the documents on the other half, by kind of mention, and baselines."""
    best = coreference.record.best
    if not best:
        return None
    figure = new_figure(5.4, 0.42 * len(best) + 0.9)
    axes = figure.subplots()
    baselines = {
        "nearest": ("nearest", "v"),
        "head_match": ("head match", "s"),
        "rules": ("rules", "D"),
    }
    places = range(len(best))
    for field, (title, marker) in baselines.items():
        values = [getattr(each, field) for each in best]
        axes.plot(values, places, marker, ms=5, mfc="none", mec=MUTED, label=title)
    for place, each in enumerate(best):
        axes.plot([each.low, each.high], [place, place], color=ACCENT, linewidth=1.6)
    axes.plot([each.accuracy for each in best], places, "o", ms=5, color=ACCENT, label="best head")
    axes.set_yticks(
        places, [f"{each.kind}: {each.head}\n{amount(each.cases, 'mention')}" for each in best]
    )
    axes.set_ylim(len(best) - 0.4, -0.6)
    axes.set_xlim(0, 1.02)
    axes.set_xlabel("share of mentions with a right antecedent, with its 95 % interval")
    figure.legend(loc="outside upper right", ncols=4)
    return figure
