"""The documents of results."""

from pathlib import Path
from typing import Any, Literal, get_args

from headcount import papers, reports, results
from headcount.core import Document

FigureFormat = Literal["svg", "png", "pdf"]
"""A format of figures."""
FORMATS: tuple[FigureFormat, ...] = get_args(FigureFormat)
"""All of them."""


def document_of(found: "results.Result[Any]", analysis: Path | None = None) -> Document:
    """What a result shows, with its warnings and signature.

    Args:
        found: The result.
        analysis: Folder of an analysis, if there is one, whose roles clusters and curves show.
    """
    if isinstance(found, papers.Evolution):
        return papers.evolution_document(found)
    if isinstance(found, papers.Followed):
        return papers.followed_document(found)
    roles = None
    if isinstance(found, results.Clusters | results.Curve) and analysis is not None:
        if (analysis / results.RunRecord.FILE).exists():
            roles = {row.head: row.roles for row in results.Analysis.read(analysis).rows}
    return reports.document_of(found, *([] if roles is None else [roles]))
