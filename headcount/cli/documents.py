"""The documents and figures of results."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from headcount import papers, reports, results

FigureFormat = Literal["svg", "png", "pdf"]
"""A format of figures."""
FORMATS: tuple[FigureFormat, ...] = get_args(FigureFormat)
"""All of them."""


def _write_clusters(
    found: "results.Clusters",
    folder: Path,
    formats: Sequence[FigureFormat],
    analysis: Path | None = None,
) -> None:
    """Write the document and the map, with the colours of the roles of an analysis, if any."""
    analysed, roles = analysis or folder, None
    if (analysed / results.RunRecord.FILE).exists():
        roles = {row.head: row.roles for row in results.Analysis.read(analysed).rows}
    reports.write_clusters_document(found, folder, formats, roles)


WRITERS: "Mapping[type[results.Result[Any]], Callable[..., object]]" = {
    results.Probed: lambda *given: reports.write_probe_figures(*given),
    results.Sensitivity: lambda *given: reports.write_sensitivity_figures(*given),
    results.Clusters: _write_clusters,
    results.Coreference: lambda *given: reports.write_coreference_document(*given),
    results.Alignment: lambda *given: reports.write_alignment_document(*given),
    papers.Evolution: lambda found, out, _: papers.write_evolution(found, out),
    papers.Followed: lambda found, out, _: papers.write_followed(found, out),
}
"""Functions that write the figures of a result into a folder in some formats, and the document."""


def write_documents(
    found: "results.Result[Any]",
    folder: Path,
    formats: Sequence[FigureFormat] = FORMATS,
    *more: Any,
) -> None:
    """Write the figures of a result, and its documents.

    Args:
        found: The result.
        folder: Its folder.
        formats: Formats of the figures.
        more: What else its document shows.
    """
    WRITERS[type(found)](found, folder, formats, *more)
