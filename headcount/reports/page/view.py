"""The view model: everything that the page shows of a run, ready to print."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from headcount.reports.kinds import Leading, kinds_of, leading
from headcount.reports.page.answer_view import Start, starts
from headcount.reports.page.card_view import Card, cards
from headcount.reports.page.grid_view import Grid, Legend, grids, legend
from headcount.reports.page.kept_view import Keeping, keepings
from headcount.reports.page.map_view import Map, maps
from headcount.reports.page.opening import Opening, opening, title_of
from headcount.reports.page.section import Section
from headcount.reports.page.sections import sections_of
from headcount.reports.untested import absent, nothing_sentence, nothing_words
from headcount.results import Analysis
from headcount.vocabulary import RoleEntry, TraitEntry, roles_named


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


@final
@dataclass(frozen=True)
class Report:
    """Everything the page shows."""

    title: str
    opening: Opening
    atlas: Atlas
    starts: tuple[Start, ...]
    """Heads worth a look."""
    cards: tuple[Card, ...]
    nothing: tuple[str, str]
    """What is said of a head that shows no role or tendency, in words and in a sentence."""
    absent: tuple[tuple[str, str], ...]
    """What no head does: the words that name it, and a sentence."""
    roles: Mapping[str, RoleEntry]
    kinds: Mapping[str, TraitEntry]
    """What leads heads, by key."""
    sections: tuple[Section, ...]
    """What stands below the map."""

    @property
    def heads(self) -> tuple[str, ...]:
        """The names of all heads."""
        return tuple(card.head for card in self.cards)

    @property
    def has_worth(self) -> bool:
        """Whether cards say what heads are worth."""
        return any(card.worth for card in self.cards)


def report_view(run: Analysis) -> Report:
    """The view model of a run."""
    found = leading(run)
    roles = (name for row in (*run.rows, *(run.null_rows or ())) for name in row.roles)
    return Report(
        title=title_of(run),
        opening=opening(run, found),
        atlas=atlas(run, found),
        starts=starts(run, found),
        cards=cards(run),
        nothing=(nothing_words(run), nothing_sentence(run)),
        absent=absent(run),
        roles=roles_named(roles),
        kinds={kind.key: kind for kind in kinds_of(run)},
        sections=sections_of(run),
    )
