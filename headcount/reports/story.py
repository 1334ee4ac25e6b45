"""The story: the opening of the report, as lines of text."""

from headcount.reports.nearest import nearest
from headcount.reports.run import Run
from headcount.reports.view import report_view

TOLD = ("positional", "syntactic", "rare")
"""Roles of the paper; for each, the story names the clearest heads or the nearest one."""


def story(run: Run) -> list[str]:
    """What heads do, the clearest heads with their evidence, and what each site is worth.

    Reference: Analyzing Multi-Head Self-Attention (Voita et al., 2019), https://arxiv.org/abs/1905.09418
    """
    view = report_view(run)
    leads = {lead.role.name: lead.heads for lead in view.leads}
    lines: list[str | None] = [view.headline]
    for role in TOLD:
        if role in leads:
            heads = [f"{head} ({evidence})" for head, evidence in leads[role]]
            lines.append(f"{role.capitalize()}: {', '.join(heads)}.")
        else:
            lines.append(nearest(run, role))
    if view.worth is not None:
        lines += [view.worth.sites, view.worth.lede]
    return [line for line in lines if line]
