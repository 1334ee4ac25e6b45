"""The story: the opening of the report, as lines of text."""

from collections.abc import Callable, Mapping

from headcount.analysis import NOT_SYNTAX
from headcount.reports.page.view import report_view
from headcount.results import HeadRow, Run, Thresholds


def nearest(run: Run, role: str) -> str | None:
    """A sentence on the head that comes nearest; None if that was not measured.

    Args:
        run: results of a run in which no head has the role.
        role: `positional`, `syntactic` or `rare`.
    """
    return _SENTENCES[role](run, run.record.thresholds)


def _positional(run: Run, limits: Thresholds) -> str | None:
    best = _highest(run, "positional_share")
    return best and (
        f"No head looks most at the same offset for {limits.positional_share:.0%} of its "
        f"tokens: {best.head} comes nearest with {best.values['positional_share']:.0%} at "
        f"offset {int(best.values['positional_offset']):+d}."
    )


def _rare(run: Run, limits: Thresholds) -> str | None:
    best = _highest(run, "rare2_share")
    return best and (
        f"No head looks most at one of the two rarest tokens for {limits.rare2_share:.0%} of its "
        f"tokens: {best.head} comes nearest with {best.values['rare2_share']:.0%}."
    )


def _syntactic(run: Run, limits: Thresholds) -> str | None:
    enough = [
        each
        for each in run.relations or ()
        if each.cases >= limits.syntactic_cases and each.relation not in NOT_SYNTAX
    ]
    best = max(
        enough,
        key=lambda each: limits.syntactic_excess(each.accuracy, each.baseline),
        default=None,
    )
    return best and (
        f"No head finds a relation {limits.syntactic_words} more often than the "
        f"best fixed offset: {best.head} comes nearest with {best.relation} {best.direction}, "
        f"{best.accuracy:.0%} against {best.baseline:.0%}."
    )


def _highest(run: Run, column: str) -> HeadRow | None:
    """The head with the highest number; None if no head has one."""
    known = [row for row in run.heads if row.values.get(column, float("nan")) >= 0]
    return max(known, key=lambda row: row.values[column], default=None)


_SENTENCES: Mapping[str, Callable[[Run, Thresholds], str | None]] = {
    "positional": _positional,
    "syntactic": _syntactic,
    "rare": _rare,
}


ROLES = ("positional", "syntactic", "rare")
"""Roles of the paper; for each, the story names the clearest heads or the nearest one."""


def story(run: Run) -> list[str]:
    """What heads do, the clearest heads with their evidence, and what each site is worth.

    Reference: Analyzing Multi-Head Self-Attention (Voita et al., 2019), https://arxiv.org/abs/1905.09418
    """
    view = report_view(run)
    leads = {lead.role.name: lead.heads for lead in view.leads}
    lines: list[str | None] = [view.headline]
    for role in ROLES:
        if role in leads:
            heads = [f"{head} ({evidence})" for head, evidence in leads[role]]
            lines.append(f"{role.capitalize()}: {', '.join(heads)}.")
        else:
            lines.append(nearest(run, role))
    if view.worth is not None:
        lines += [view.worth.sites, view.worth.lede]
    return [line for line in lines if line]
