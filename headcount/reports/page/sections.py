"""The sections of the page, in their order: numbers first, methods last.

To add one, write a function of the run that returns a Section or None, with a document or a
template of its own; then name the function here.
"""

from collections.abc import Callable
from typing import Any

from headcount.reports.documents.confirmation import confirmation_document
from headcount.reports.documents.results import document_of
from headcount.reports.page import (
    curve_view,
    heads_view,
    layer_view,
    method_view,
    null_view,
    pruned_view,
    syntax_section,
    worth_view,
)
from headcount.reports.page.section import Section
from headcount.results import Analysis, Result, confirm


def _documented(key: str, short: str, found: Result[Any] | None, *more: object) -> Section | None:
    """The section that shows the document of a result beside the analysis; None without it."""
    if found is None:
        return None
    shown = document_of(found, *more)
    return Section(key, shown.title, short, "_document.html.j2", shown)


def _confirmed(run: Analysis) -> Section | None:
    """The section on other texts; None unless an analysis of such was named."""
    if run.confirming is None:
        return None
    shown = confirmation_document(confirm(run, run.confirming))
    return Section("confirmed", shown.title, "other texts", "_document.html.j2", shown)


SECTIONS: tuple[Callable[[Analysis], Section | None], ...] = (
    worth_view.section,
    curve_view.section,
    pruned_view.section,
    _confirmed,
    syntax_section.section,
    lambda run: _documented("probes", "probes", run.probes),
    lambda run: _documented(
        "clusters", "same places", run.clusters, {row.head: row.roles for row in run.rows}
    ),
    lambda run: _documented("coreference", "antecedents", run.coreference),
    lambda run: _documented("alignment", "translations", run.alignment),
    layer_view.section,
    null_view.section,
    heads_view.section,
    method_view.section,
)
"""Builders of all sections; a section of which the run holds nothing is None."""


def sections_of(run: Analysis) -> tuple[Section, ...]:
    """The sections for which the run holds something."""
    return tuple(found for build in SECTIONS if (found := build(run)) is not None)
