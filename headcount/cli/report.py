"""`headcount report`: the report and figures of a finished run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from headcount import reports, results
from headcount.cli.console import plain_console
from headcount.core import check_is_folder
from headcount.results import check_is_run


@dataclass(frozen=True)
class Report:
    """Rewrite the report of a finished run and its figures as SVG, PNG and PDF."""

    out: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="OUT")]
    """Folder of the run."""
    formats: tuple[Literal["svg", "png", "pdf"], ...] = ("svg", "png", "pdf")
    """Formats of the figures, which are written into `figures/`."""

    def run(self) -> int:
        """Write the report and figures, and print where they are."""
        check_is_run(self.out)
        check_is_folder(self.out)
        console = plain_console(soft_wrap=False)
        console.print(f"Report: {reports.write_report(self.out)}", soft_wrap=True)
        figures = reports.write_figures(self.out, self.formats)
        if (self.out / results.PROBES).exists():
            figures += reports.write_probe_figures(self.out, self.formats)
        console.print(f"{len(figures)} figures in {self.out / 'figures'}", soft_wrap=True)
        return 0
