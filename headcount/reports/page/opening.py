"""The opening of the page: what heads do, what they are worth, and what would show more."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from headcount.reports.documents.pruned import pruned_answer
from headcount.reports.documents.skills import best_heads, skills_headline
from headcount.reports.kinds import Leading, leading
from headcount.reports.page.answer_view import Given, next_steps, pruning_answer, starts
from headcount.reports.sentences import by_chance, measured, shape_text, short_name
from headcount.reports.untested import headline_of
from headcount.reports.worth import answer
from headcount.results import Analysis, TraitStrength, finding
from headcount.vocabulary import ROLES, VOITA


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


def nearest(run: Analysis, role: str) -> str | None:
    """A sentence on the head that comes nearest to a role; None if that was not tested.

    The first half of the corpus chose the head; its numbers are those of the other half.

    Args:
        run: results of a run in which no head has the role.
        role: name of the role.
    """
    tested = [
        trait
        for traits in (run.traits or {}).values()
        for trait in traits
        if trait.role == role and trait.verdict != "untested" and trait.first_gain > 0
    ]
    best: TraitStrength | None = max(tested, key=lambda each: each.first_gain, default=None)
    return best and f"No head is {role}: {best.head} comes nearest. It {finding(best)}."


def story(run: Analysis, given: Given | None = None) -> list[str]:
    """What the heads do and are worth, heads worth a look, and what would show more.

    Of a role of the paper that no head has, it names the head that comes nearest.

    Reference: Analyzing Multi-Head Self-Attention (Voita et al., 2019), https://arxiv.org/abs/1905.09418

    Args:
        run: the run.
        given: what the proposed commands name; what the record says if None.
    """
    found = leading(run)
    first = opening(run, found, given)
    having = {name for row in run.rows for name in row.roles}
    lines: list[str | None] = [first.headline, *(text for _, text in first.answers)]
    lines += [f"Start with {start.head}: it {start.why}." for start in starts(run, found)]
    papers = [role for role in run.record.inputs.roles if ROLES[role].source.startswith(VOITA)]
    lines += [nearest(run, role) for role in papers if role not in having]
    if first.steps:
        lines.append(f"To see more: {first.steps[0].replace('`', '')}")
    return [line for line in lines if line]
