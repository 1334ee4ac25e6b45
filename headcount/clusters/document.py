"""What distances between heads show: groups that look at the same places, and what layers share."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from headcount.clusters.result import Clusters, LayerTest
from headcount.core import (
    MUTED,
    ON_MARK,
    Chart,
    Document,
    Head,
    Heading,
    Table,
    Text,
    amount,
    panel_grid,
)
from headcount.pages import SITE_TITLES, Note
from headcount.vocabulary import CLARK, roles_named

SHOWN = 10
"""Number of pairs and of groups in a table."""
_PANEL = (3.4, 3.4)
"""Width and height of one site's map, in inches."""
_NAMED = 26
"""Largest number of rows of a map that have their names beside them: more would overlap."""


def clusters_notes(found: Clusters) -> tuple[Note, ...]:
    """How distances between heads are measured."""
    return (
        Note(
            "Distance between heads",
            "Mean Jensen-Shannon divergence of two heads' weights per query, in nats. Groups are "
            "those of complete linkage whose heads are all within "
            f"{found.record.within:g} nats; the picture is multidimensional scaling.",
            f"{CLARK}, section 6",
        ),
    )


def clusters_document(
    found: Clusters, roles: Mapping[str, Sequence[str]] | None = None
) -> Document:
    """The document of clusters.

    Args:
        found: the clusters.
        roles: roles by head, the main one first, which colour the map; None colours by layer.
    """
    record, groups = found.record, [group for group in found.groups if len(group) > 1]
    groups.sort(key=len, reverse=True)
    return Document(
        "Which heads look at the same places",
        (
            Text(f"Within {record.within} nats: {_grouped(found, groups)}", "lede"),
            Text(
                f"{record.model}: {amount(len(found.places), 'head')} on "
                f"{amount(record.sentences, 'sentence')}. A distance is the mean Jensen-Shannon "
                "divergence of two heads' weights per query, from 0 to 0.69 nats."
            ),
            *(Text(_layers_sentence(test)) for test in record.tests),
            Chart(
                "clusters",
                "Heads near each other look at the same places",
                lambda: cluster_map(found, roles),
                is_detail=True,
            ),
            *((Heading("Largest groups"), _groups(groups)) if groups else ()),
            Heading("Nearest heads"),
            Table.of(
                ("head", "head", "nats"),
                (
                    (str(row["head_a"]), str(row["head_b"]), f"{row['distance']:.3f}")
                    for row in found.distances.nsmallest(SHOWN, "distance").to_dict("records")
                ),
                "Pairs of heads with the smallest distances",
            ),
            Chart(
                "distances",
                "Distances between all heads: dark is near",
                lambda: distance_matrix(found),
                is_detail=True,
            ),
        ),
    )


def _groups(groups: Sequence[Sequence[str]]) -> Table:
    rows = ((str(len(each)), _layers(each), " ".join(each)) for each in groups[:SHOWN])
    return Table.of(("heads", "layers", "names"), rows, "Groups with the most heads")


def _layers(heads: Sequence[str]) -> str:
    return ", ".join(map(str, sorted({Head.parse(head).layer for head in heads})))


def _grouped(found: Clusters, groups: Sequence[Sequence[str]]) -> str:
    """The number of groups, of heads in them, and of heads on their own."""
    heads = sum(map(len, groups))
    return (
        f"{amount(heads, 'head')} in {amount(len(groups), 'group')} of two or more; "
        f"{amount(len(found.places) - heads, 'head')} without a near one."
    )


def _layers_sentence(test: LayerTest) -> str:
    """What a test of the layers found."""
    site = SITE_TITLES.get(test.site, test.site)
    if test.p != test.p:
        return f"{site}: there is one layer only, or one head in each layer."
    is_near = test.p <= 0.05 and test.same_layer < test.other_layers
    return (
        f"{site}: heads of one layer are {test.same_layer:.3f} nats apart, heads of different "
        f"layers {test.other_layers:.3f}. Heads of one layer are "
        f"{'nearer to each other' if is_near else 'not clearly nearer'} (p = {test.p:.2g}, "
        f"{amount(test.permutations, 'permutation')})."
    )


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
    figure, grid = panel_grid(len(by_site), len(by_site), _PANEL, (0.4, 0.9))
    for axes, (site, places) in zip(grid, by_site.items(), strict=True):
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
    figure, grid = panel_grid(len(sites), len(sites), _PANEL, (1.0, 0.5))
    distance = {
        frozenset((row["head_a"], row["head_b"])): row["distance"]
        for row in clusters.distances.to_dict("records")
    }
    largest = max(distance.values(), default=1.0)
    image = None
    for axes, site in zip(grid, sites, strict=True):
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
        bar = figure.colorbar(image, ax=grid, shrink=0.8)
        bar.set_label("distance in nats per query")
    return figure
