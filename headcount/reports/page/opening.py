"""The opening of the page: what heads do, what they are worth, and what would show more."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from headcount.reports.documents.pruned import pruned_answer
from headcount.reports.documents.skills import best_heads, skills_headline
from headcount.reports.kinds import Leading
from headcount.reports.page.answer_view import Given, next_steps, pruning_answer
from headcount.reports.sentences import by_chance, measured, shape_text, short_name
from headcount.reports.untested import headline_of
from headcount.reports.worth import answer
from headcount.results import Analysis


@final
@dataclass(frozen=True)
class Opening:
    """What the page says first."""

    model: str
    shape: str
    """The model's kind and number of layers."""
    headline: str
    """What the model can do, if that was measured; else what its heads look at."""
    answers: tuple[tuple[str, str], ...]
    """Titled sentences on what the heads are worth and how many can be pruned."""
    steps: tuple[str, ...]
    """What would show more."""
    by_chance: str
    """Number of heads with a role at random weights, in words; empty without a null run."""
    measured: str
    warnings: tuple[str, ...]
    examples: str
    """What the cards show heads on: `sentences` or `images`."""
    find: str
    """What can be searched for, as a hint."""


def title_of(run: Analysis) -> str:
    """The title of a run's page."""
    return short_name(run.record.model)


def opening(
    run: Analysis, found: Mapping[str, Leading | None], given: Given | None = None
) -> Opening:
    """The opening of a run's page.

    Args:
        run: the run.
        found: what leads each head.
        given: what the proposed commands name; what the record says if None.
    """
    answers = (
        ("Which matter", answer(run)),
        ("How many can be pruned", pruning_answer(run)),
        ("Pruned", pruned_answer(run)),
    )
    headline = headline_of(run, [*found.values()])
    if (skills := run.skills) is not None:
        looks = ("What heads look at", headline)
        answers = (("Best heads", best_heads(skills)), looks, *answers)
        headline = skills_headline(skills)
    return Opening(
        model=run.record.model,
        shape=shape_text(run.record),
        headline=headline,
        answers=tuple((title, text) for title, text in answers if text),
        steps=next_steps(run, found, given or Given.of(run)),
        by_chance=by_chance([row.roles for row in run.null_rows or ()]),
        measured=measured(run.record),
        warnings=run.record.warnings,
        examples=f"{run.record.inputs.item}s",
        find=run.record.inputs.find,
    )
