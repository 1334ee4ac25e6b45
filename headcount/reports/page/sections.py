"""The sections of the page, in their order: numbers first, methods last.

To add one, write a function of the run that returns a document or None; then name it here.
"""

from collections.abc import Callable
from typing import Any

from headcount.core import Document
from headcount.reports.documents.chance import chance_document
from headcount.reports.documents.confirmation import confirmation_document
from headcount.reports.documents.layers import layers_document
from headcount.reports.documents.pruned import pruned_document
from headcount.reports.documents.results import document_of
from headcount.reports.documents.syntax import syntax_document
from headcount.reports.documents.worth import worth_document
from headcount.reports.page import (
    heads_view,
    method_view,
)
from headcount.reports.page.kept_view import curve_shown
from headcount.reports.page.section import Section
from headcount.results import Analysis, Result, confirm


def _documented(key: str, short: str, shown: Document | None) -> Section | None:
    """The section that shows a document; None without one."""
    return shown and Section(key, shown.title, short, shown)


def _result(key: str, short: str, found: Result[Any] | None, *more: object) -> Section | None:
    """The section that shows the document of a result beside the analysis; None without it."""
    return None if found is None else _documented(key, short, document_of(found, *more))


def _worth(run: Analysis) -> Document | None:
    if (found := run.importance) is None:
        return None
    shown = worth_document(found, run.heads)
    return shown and shown.ending(found.warnings, found.signature)


def _confirmed(run: Analysis) -> Section | None:
    """The section on other texts; None unless an analysis of such was named."""
    if run.confirming is None:
        return None
    return _documented(
        "confirmed", "other texts", confirmation_document(confirm(run, run.confirming))
    )


SECTIONS: tuple[Callable[[Analysis], Section | None], ...] = (
    lambda run: _result("skills", "skills", run.skills),
    lambda run: _result("explained", "prediction", run.explained),
    lambda run: _documented("worth", "worth", _worth(run)),
    lambda run: _documented("curve", "pruning", curve_shown(run)),
    lambda run: _documented("pruned", "before and after", pruned_document(run)),
    _confirmed,
    lambda run: _documented("syntax", "syntax", syntax_document(run)),
    lambda run: _result("probes", "probes", run.probes),
    lambda run: _result(
        "clusters", "same places", run.clusters, {row.head: row.roles for row in run.rows}
    ),
    lambda run: _result("coreference", "antecedents", run.coreference),
    lambda run: _result("alignment", "translations", run.alignment),
    lambda run: _documented("layers", "layers", layers_document(run)),
    lambda run: _documented("null", "chance", chance_document(run)),
    heads_view.section,
    method_view.section,
)
"""Builders of all sections; a section of which the run holds nothing is None."""


def sections_of(run: Analysis) -> tuple[Section, ...]:
    """The sections for which the run holds something."""
    return tuple(found for build in SECTIONS if (found := build(run)) is not None)
