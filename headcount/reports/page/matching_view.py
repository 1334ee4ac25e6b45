"""The view model of matched heads in a comparison."""

from dataclasses import dataclass
from typing import final

from headcount.reports.matching_text import (
    correlation_row,
    matching_sentence,
    matching_title,
)
from headcount.results import Matching, SiteMatching


@final
@dataclass(frozen=True)
class SiteView:
    """The pairs of one site and what they have in common."""

    title: str
    sentence: str
    layers: str
    """How far matched heads are from their own layers."""
    rows: tuple[tuple[str, ...], ...]
    """Number, held-out role, correlation, both ranges and p-value."""
    pairs: tuple[tuple[str, str, str], ...]
    """Both heads and their distance; empty within layers."""


@final
@dataclass(frozen=True)
class MatchingView:
    """Everything that the page shows of matched heads."""

    sites: tuple[SiteView, ...]
    warnings: tuple[str, ...]


def matching_view(matching: Matching) -> MatchingView:
    """The view model of a matching."""
    return MatchingView(tuple(map(_site, matching.sites)), matching.warnings)


def _site(found: SiteMatching) -> SiteView:
    apart, distance = found.layers_apart_by_chance, found.distance_by_chance
    layers = (
        f"Pairs are {found.layers_apart:.2f} layers apart ({apart.mean:.2f} at random). "
        if found.across_layers
        else ""
    )
    pairs = [(each.one, each.other, f"{each.distance:.2f}") for each in found.pairs]
    return SiteView(
        matching_title(found),
        matching_sentence(found),
        f"{layers}Their mean distance is {found.distance:.2f} ({distance.low:.2f} to "
        f"{distance.high:.2f} with shuffled profiles).",
        tuple(map(correlation_row, found.correlations)),
        tuple(pairs) if found.across_layers else (),
    )
