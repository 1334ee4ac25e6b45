"""The story: what the report opens with, as lines of text."""

from headcount.reports.run import Run
from headcount.reports.view import report_view

TOLD = ("positional", "syntactic", "rare")
"""Roles of the paper: of these the clearest heads are named."""


def story(run: Run) -> list[str]:
    """Which heads do what, the clearest ones with their evidence, and what each site is worth.

    Reference: Analyzing Multi-Head Self-Attention (Voita et al., 2019), https://arxiv.org/abs/1905.09418
    """
    view = report_view(run)
    lines = [view.headline]
    for lead in view.leads:
        if lead.role.name in TOLD:
            heads = [f"{head} ({evidence})" for head, evidence in lead.heads]
            lines.append(f"{lead.role.name.capitalize()}: {', '.join(heads)}.")
    if view.worth is not None:
        lines += [line for line in (view.worth.sites, view.worth.lede) if line]
    return lines
