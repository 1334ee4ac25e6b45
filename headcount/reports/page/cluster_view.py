"""The section on clusters: a map of the heads of each site, and groups that look at one place."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from headcount.core import Head
from headcount.reports.head_relations_text import groups_sentence, layers_sentence
from headcount.reports.names import SITE_TITLES
from headcount.reports.page.section import Section
from headcount.results import Analysis, Clusters, HeadPlace

SIZE, MARGIN = 340, 14
"""Width and height of a map, and its margin."""
SHOWN = 8
"""Number of groups and of pairs that are listed."""


@final
@dataclass(frozen=True)
class HeadDot:
    """A head on the map."""

    head: str
    label: str
    """Layer and index."""
    x: float
    y: float
    shade: float
    """Its layer, from 0.25 (the first) to 1 (the last)."""


@final
@dataclass(frozen=True)
class SiteMap:
    """The map of one site."""

    title: str
    dots: tuple[HeadDot, ...]


@final
@dataclass(frozen=True)
class ClusterView:
    """The section."""

    lede: str
    tests: tuple[str, ...]
    """What the test of the layers found, for each site."""
    size: int
    maps: tuple[SiteMap, ...]
    groups: tuple[tuple[str, ...], ...]
    """The largest groups of two or more heads."""
    pairs: tuple[tuple[str, str, str], ...]
    """The nearest heads and their distance."""


def section(run: Analysis) -> Section | None:
    """The section on clusters; None without distances."""
    if run.clusters is None:
        return None
    found = run.clusters
    groups = sorted(found.groups, key=len, reverse=True)
    view = ClusterView(
        lede=f"Within {found.record.within} nats: {groups_sentence(found)}",
        tests=tuple(map(layers_sentence, found.record.tests)),
        size=SIZE,
        maps=site_maps(found),
        groups=tuple(group for group in groups if len(group) > 1)[:SHOWN],
        pairs=tuple(
            (str(row["head_a"]), str(row["head_b"]), f"{row['distance']:.3f}")
            for row in found.distances.nsmallest(SHOWN, "distance").to_dict("records")
        ),
    )
    title = "Which heads look at the same places"
    return Section("clusters", title, "same places", "_clusters.html.j2", view)


def site_maps(found: Clusters) -> tuple[SiteMap, ...]:
    """The map of every site; distances keep their proportions."""
    by_site: dict[str, list[HeadPlace]] = {}
    for place in found.places:
        by_site.setdefault(Head.parse(place.head).site, []).append(place)
    return tuple(
        SiteMap(SITE_TITLES.get(site, site), _dots(places)) for site, places in by_site.items()
    )


def _dots(places: Sequence[HeadPlace]) -> tuple[HeadDot, ...]:
    left, low = min(place.x for place in places), min(place.y for place in places)
    spans = (max(place.x for place in places) - left, max(place.y for place in places) - low)
    scale = (SIZE - 2 * MARGIN) / (max(spans) or 1.0)
    heads = [Head.parse(place.head) for place in places]
    last = max(head.layer for head in heads) or 1
    return tuple(
        HeadDot(
            place.head,
            f"{head.layer}.{head.index}",
            round(MARGIN + scale * (place.x - left), 1),
            round(MARGIN + scale * (place.y - low), 1),
            round(0.25 + 0.75 * head.layer / last, 2),
        )
        for place, head in zip(places, heads, strict=True)
    )
