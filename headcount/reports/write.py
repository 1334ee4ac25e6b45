"""Write the report next to the results it shows."""

from pathlib import Path

from headcount.files import write_text
from headcount.reports.html import render
from headcount.reports.read import read_run
from headcount.reports.view import report_view


def write_report(folder: str | Path) -> Path:
    """Read the results of a run folder and write `report.html` into it, atomically.

    Raises:
        InputError: if a result file is missing or damaged.
    """
    path = Path(folder) / "report.html"
    write_text(path, render(report_view(read_run(path.parent))))
    return path
