"""The sections of the page, in their order: numbers first, methods last.

To add one, write a function of the run that returns a document or None; then name it in `SECTIONS`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from headcount.core import Document, Table
from headcount.importance import Assessment
from headcount.reports.documents.alignment import alignment_document
from headcount.reports.documents.cache import cache_document
from headcount.reports.documents.clusters import clusters_document
from headcount.reports.documents.confirmation import chance_document, confirmation_document
from headcount.reports.documents.coreference import coreference_document
from headcount.reports.documents.curve import curve_document
from headcount.reports.documents.explanation import explanation_document
from headcount.reports.documents.layers import layers_document
from headcount.reports.documents.methods import methods_document
from headcount.reports.documents.probes import probes_document
from headcount.reports.documents.pruned import pruned_document
from headcount.reports.documents.sensitivity import sensitivity_document
from headcount.reports.documents.skills import skills_document
from headcount.reports.documents.syntax import syntax_document
from headcount.reports.documents.worth import worth_document
from headcount.reports.names import measures
from headcount.reports.page.grid_view import curve_shown
from headcount.results import (
    Alignment,
    Analysis,
    Clusters,
    Coreference,
    Curve,
    Explained,
    HeadRow,
    PlannedCache,
    Probed,
    Result,
    Sensitivity,
    Skills,
    confirm,
)


@final
@dataclass(frozen=True)
class Section:
    """One section below the map, with its entry in the contents list."""

    key: str
    """Id of the section, which links end in."""
    short: str
    """Name in the contents list."""
    view: Document
    """What it shows, under its title."""


def heads_section(heads: Sequence[HeadRow]) -> Section:
    """The section with the table of some heads."""
    columns = measures(heads[0].values)
    table = Table.of(
        ("head", "roles", *(each.label for each in columns)),
        (
            (row.head, ", ".join(row.roles), *(each.show(row.values[each.key]) for each in columns))
            for row in heads
        ),
        f"Table of all {len(heads)} heads",
        is_detail=True,
        abouts=("", "", *(each.about for each in columns)),
    )
    return Section("numbers", "all numbers", Document("All numbers", (table,)))


DOCUMENTS: Mapping[type[Result[Any]], Callable[..., Document]] = {
    Alignment: alignment_document,
    Assessment: worth_document,
    Clusters: clusters_document,
    Coreference: coreference_document,
    Curve: curve_document,
    Explained: explanation_document,
    PlannedCache: cache_document,
    Probed: probes_document,
    Sensitivity: sensitivity_document,
    Skills: skills_document,
}
"""What each result shows."""


def document_of(found: Result[Any], *more: object) -> Document:
    """What a result shows, with its warnings and signature.

    Args:
        found: the result.
        more: what else its document takes: of clusters and curves, the roles of the heads.
    """
    shown = DOCUMENTS[type(found)](found, *more)
    return shown.ending(found.record.warnings, found.record.signature)


def _documented(key: str, short: str, shown: Document | None) -> Section | None:
    """The section that shows a document; None without one."""
    return shown and Section(key, short, shown)


def _result(key: str, short: str, found: Result[Any] | None, *more: object) -> Section | None:
    """The section that shows the document of a result beside the analysis; None without it."""
    return None if found is None else _documented(key, short, document_of(found, *more))


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
    lambda run: _result("worth", "worth", run.importance and Assessment(run.importance, run.heads)),
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
    lambda run: heads_section(run.rows),
    lambda run: _documented("methods", "methods", methods_document(run)),
)
"""Builders of all sections; a section of which the run holds nothing is None."""


def sections_of(run: Analysis) -> tuple[Section, ...]:
    """The sections for which the run holds something."""
    return tuple(found for build in SECTIONS if (found := build(run)) is not None)
