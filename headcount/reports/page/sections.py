"""The sections of the page, in their order: numbers first, methods last.

To add one, write a function of the run that returns a document or None; then name it in `SECTIONS`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from headcount.core import Document, Table, amount
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


def heads_document(heads: Sequence[HeadRow]) -> Document:
    """Every number of some heads."""
    columns = measures(heads[0].values)
    rows = (
        (row.head, ", ".join(row.roles), *(each.show(row.values[each.key]) for each in columns))
        for row in heads
    )
    headers = ("head", "roles", *(each.label for each in columns))
    abouts = ("", "", *(each.about for each in columns))
    title = f"Table of all {amount(len(heads), 'head')}"
    table = Table.of(headers, rows, title, is_detail=True, abouts=abouts)
    return Document("All numbers", (table,))


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


def _result(found: Result[Any] | None, *more: object) -> Document | None:
    """The document of a result beside the analysis; None without it."""
    return None if found is None else document_of(found, *more)


def _confirmed(run: Analysis) -> Document | None:
    """Roles on other texts; None unless an analysis of such was named."""
    if run.confirming is None:
        return None
    return confirmation_document(confirm(run, run.confirming))


def _worth(run: Analysis) -> Document | None:
    return _result(run.importance and Assessment(run.importance, run.heads))


def _clusters(run: Analysis) -> Document | None:
    return _result(run.clusters, {row.head: row.roles for row in run.rows})


SECTIONS: tuple[tuple[str, str, Callable[[Analysis], Document | None]], ...] = (
    ("skills", "skills", lambda run: _result(run.skills)),
    ("explained", "prediction", lambda run: _result(run.explained)),
    ("worth", "worth", _worth),
    ("curve", "pruning", curve_shown),
    ("pruned", "before and after", pruned_document),
    ("confirmed", "other texts", _confirmed),
    ("syntax", "syntax", syntax_document),
    ("probes", "probes", lambda run: _result(run.probes)),
    ("clusters", "same places", _clusters),
    ("coreference", "antecedents", lambda run: _result(run.coreference)),
    ("alignment", "translations", lambda run: _result(run.alignment)),
    ("layers", "layers", layers_document),
    ("null", "chance", chance_document),
    ("numbers", "all numbers", lambda run: heads_document(run.rows)),
    ("methods", "methods", methods_document),
)
"""Id and short name of each section, and its document; None where the run holds nothing of it."""


def sections_of(run: Analysis) -> tuple[Section, ...]:
    """The sections for which the run holds something."""
    found = ((key, short, document(run)) for key, short, document in SECTIONS)
    return tuple(Section(key, short, shown) for key, short, shown in found if shown)
