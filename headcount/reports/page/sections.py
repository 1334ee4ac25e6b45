"""The sections of the page, in their order: numbers first, methods last.

To add one, write a function of the run that returns a document or None; then name it in `SECTIONS`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from headcount.core import Document
from headcount.importance import Assessment
from headcount.reports.documents.alignment import alignment_document
from headcount.reports.documents.cache import cache_document
from headcount.reports.documents.clusters import clusters_document
from headcount.reports.documents.confirmation import confirmation_document
from headcount.reports.documents.coreference import coreference_document
from headcount.reports.documents.counts import chance_document
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
from headcount.vocabulary import ColumnEntry


@final
@dataclass(frozen=True)
class Section:
    """One section below the map, with its entry in the contents list."""

    key: str
    """Id of the section, which links end in."""
    title: str
    """Heading, also in the contents list."""
    short: str
    """Name in the contents list."""
    view: object
    """What the template prints."""
    template: str = "_document.html.j2"
    """File in `templates/` that shows it; the view is there as `view`."""


MANY = 400
"""Number of heads above which the page holds no table; its script makes it when it is opened."""


@final
@dataclass(frozen=True)
class HeadsTable:
    """The table."""

    columns: tuple[ColumnEntry, ...]
    rows: tuple[tuple[str, str, tuple[str, ...]], ...]
    """Head, roles and the texts of its numbers; of many heads, the page's script adds them."""
    num_heads: int


def heads(run: Analysis) -> Section:
    """The section with the table of all heads."""
    return heads_section(run.rows, len(run.rows) <= MANY)


def heads_section(heads: Sequence[HeadRow], is_filled: bool = True) -> Section:
    """The section with the table of some heads, filled now or when it is opened."""
    columns = tuple(measures(heads[0].values))
    rows = tuple(
        (row.head, ", ".join(row.roles), tuple(c.show(row.values[c.key]) for c in columns))
        for row in heads
        if is_filled
    )
    view = HeadsTable(columns, rows, len(heads))
    return Section("numbers", "All numbers", "all numbers", view, "_heads.html.j2")


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
    return shown and Section(key, shown.title, short, shown)


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
    heads,
    lambda run: _documented("methods", "methods", methods_document(run)),
)
"""Builders of all sections; a section of which the run holds nothing is None."""


def sections_of(run: Analysis) -> tuple[Section, ...]:
    """The sections for which the run holds something."""
    return tuple(found for build in SECTIONS if (found := build(run)) is not None)
