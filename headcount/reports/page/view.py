"""The view model: everything that the page shows of a run, ready to print."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from headcount.reports.documents.pruned import pruned_answer
from headcount.reports.kinds import Kind, kinds_of, leading
from headcount.reports.names import RoleName, role_names
from headcount.reports.page.answer_view import Start, next_steps, pruning_answer, starts
from headcount.reports.page.card_view import Card, cards
from headcount.reports.page.grid_view import Grid, Legend, grids, legend
from headcount.reports.page.kept_view import Keeping, keepings
from headcount.reports.page.map_view import Map, maps
from headcount.reports.page.section import Section
from headcount.reports.page.sections import sections_of
from headcount.reports.sentences import by_chance, measured, shape_text, short_name
from headcount.reports.untested import headline_of, nothing_sentence, nothing_words
from headcount.reports.worth import answer
from headcount.results import Analysis


@final
@dataclass(frozen=True)
class Report:
    """Everything the page shows."""

    model: str
    title: str
    shape: str
    """The model's kind and number of layers."""
    headline: str
    answers: tuple[tuple[str, str], ...]
    """Titled sentences on what the heads are worth and how many can be pruned."""
    steps: tuple[str, ...]
    """What would show more."""
    by_chance: str
    """Number of heads with a role at random weights, in words; empty without a null run."""
    measured: str
    warnings: tuple[str, ...]
    roles: Mapping[str, RoleName]
    kinds: Mapping[str, Kind]
    """What leads heads, by key."""
    legend: Legend
    grids: tuple[Grid, ...]
    keepings: tuple[Keeping, ...]
    """Choices of heads that the map can show."""
    starts: tuple[Start, ...]
    """Heads worth a look."""
    maps: tuple[Map, ...]
    heads: tuple[str, ...]
    cards: tuple[Card, ...]
    nothing: str
    """What is said of a head that shows no role or tendency."""
    nothing_more: str
    """The same in a sentence."""
    has_worth: bool
    """Whether cards say what heads are worth."""
    has_null: bool
    examples: str
    """What the cards show heads on: `sentences` or `images`."""
    find: str
    """What can be searched for, as a hint."""
    sections: tuple[Section, ...]
    """What stands below the map."""


def report_view(run: Analysis) -> Report:
    """The view model of a run."""
    roles = [row.roles for row in run.rows]
    null = [row.roles for row in run.null_rows or ()]
    found = leading(run)
    shown = cards(run)
    return Report(
        model=run.record.model,
        title=short_name(run.record.model),
        shape=shape_text(run.record),
        headline=headline_of(run, [*found.values()]),
        answers=_answers(run),
        steps=next_steps(run, found),
        by_chance=by_chance(null),
        measured=measured(run.record),
        warnings=run.record.warnings,
        roles=role_names(name for head in [*roles, *null] for name in head),
        kinds={kind.key: kind for kind in kinds_of(run)},
        legend=legend(run, found),
        grids=grids(run, found),
        keepings=keepings(run),
        starts=starts(run, found),
        maps=maps(run),
        heads=tuple(row.head for row in run.rows),
        cards=shown,
        nothing=nothing_words(run),
        nothing_more=nothing_sentence(run),
        has_worth=any(card.worth for card in shown),
        has_null=run.null_rows is not None,
        examples="sentences" if run.record.grid is None else "images",
        find="subject, punctuation" if run.record.grid is None else "class token, patch above",
        sections=sections_of(run),
    )


def _answers(run: Analysis) -> tuple[tuple[str, str], ...]:
    answers = (
        ("Which matter", answer(run)),
        ("How many can be pruned", pruning_answer(run)),
        ("Pruned", pruned_answer(run)),
    )
    return tuple((title, text) for title, text in answers if text)
