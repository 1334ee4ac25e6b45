"""The map of the page: every head, coloured by what leads it or by any of its numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from headcount.reports.kinds import Leading
from headcount.reports.page.grid_view import Grid, Legend, grids, legend
from headcount.reports.page.kept_view import Keeping, keepings
from headcount.reports.page.map_view import Map, maps
from headcount.results import Analysis


@final
@dataclass(frozen=True)
class Atlas:
    """Everything that the map can show."""

    legend: Legend
    grids: tuple[Grid, ...]
    keepings: tuple[Keeping, ...]
    """Choices of heads."""
    maps: tuple[Map, ...]
    """Numbers of heads."""


def atlas(run: Analysis, found: Mapping[str, Leading | None]) -> Atlas:
    """The map of a run.

    Args:
        run: the run.
        found: what leads each head.
    """
    return Atlas(legend(run, found), grids(run, found), keepings(run), maps(run))
