"""`headcount report`: the report and figures of a finished run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from headcount import models, papers, reports, results
from headcount.cli.console import plain_console
from headcount.core import amount, check_is_folder
from headcount.results import check_is_run


@dataclass(frozen=True)
class Report:
    """Rewrite the report of a finished run and its figures as SVG, PNG and PDF."""

    HAS_TABLES = True

    out: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="OUT")]
    """Folder of the run."""
    formats: tuple[Literal["svg", "png", "pdf"], ...] = ("svg", "png", "pdf")
    """Formats of the figures, which are written into `figures/`."""
    pruned: Path | None = None
    """Model pruned from this one, a folder or headcount:en-de-36, to show before and after."""

    def run(self) -> int:
        """Write the report and figures, and print where they are."""
        check_is_folder(self.out)
        console = plain_console(soft_wrap=False)
        written = [name for name in WRITERS if (self.out / name).exists()]
        if (self.out / results.RunRecord.FILE).exists() or not written or self.pruned:
            check_is_run(self.out)
            pruned = None if self.pruned is None else Path(models.place_of(str(self.pruned)))
            console.print(f"Report: {reports.write_report(self.out, pruned)}", soft_wrap=True)
            reports.write_figures(self.out, self.formats)
        for name in written:
            if (document := WRITERS[name](self.out, self.formats)) is not None:
                console.print(f"Document: {document}", soft_wrap=True)
        number = amount(len([*(self.out / "figures").glob("*")]), "figure")
        console.print(f"{number} in {self.out / 'figures'}", soft_wrap=True)
        return 0


def _clusters(folder: Path, formats: Sequence[str]) -> Path:
    """The document on clusters; the map has the colours of roles if the folder has an analysis."""
    roles = None
    if (folder / results.RunRecord.FILE).exists():
        roles = {row.head: row.roles for row in results.Analysis.read(folder).rows}
    return reports.write_clusters_document(folder, roles, formats)


def _probes(folder: Path, formats: Sequence[str]) -> None:
    reports.write_probe_figures(folder, formats)


def _sensitivity(folder: Path, formats: Sequence[str]) -> None:
    reports.write_sensitivity_figures(folder, formats)


WRITERS: dict[str, Callable[[Path, Sequence[str]], Path | None]] = {
    "probes.json": _probes,
    "sensitivity.json": _sensitivity,
    "clusters.json": _clusters,
    "coreference.json": lambda *given: reports.write_coreference_document(*given),
    "alignment.json": lambda *given: reports.write_alignment_document(*given),
    "evolution.json": lambda out, _: papers.write_evolution(papers.Evolution.read(out), out),
    "follow.json": lambda out, _: papers.write_followed(papers.Followed.read(out), out),
}
"""Writers of figures and of the document, if there is one, by the records that they are about."""
