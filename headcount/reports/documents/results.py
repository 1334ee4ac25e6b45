"""The document of each result that has a section on the page or a file of its own."""

from collections.abc import Callable, Mapping
from typing import Any

from headcount.core import Document
from headcount.reports.documents.alignment import alignment_document
from headcount.reports.documents.cache import cache_document
from headcount.reports.documents.clusters import clusters_document
from headcount.reports.documents.coreference import coreference_document
from headcount.reports.documents.curve import curve_document
from headcount.reports.documents.explanation import explanation_document
from headcount.reports.documents.probes import probes_document
from headcount.reports.documents.sensitivity import sensitivity_document
from headcount.reports.documents.skills import skills_document
from headcount.results import (
    Alignment,
    Clusters,
    Coreference,
    Curve,
    Explained,
    PlannedCache,
    Probed,
    Result,
    Sensitivity,
    Skills,
)

DOCUMENTS: Mapping[type[Result[Any]], Callable[..., Document]] = {
    Alignment: alignment_document,
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
