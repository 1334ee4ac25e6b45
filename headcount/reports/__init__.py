"""Reports: pure functions that turn the results of a run into one offline HTML file and figures."""

from headcount.reports.figures import write_figures
from headcount.reports.html import render
from headcount.reports.read import read_run
from headcount.reports.run import Run
from headcount.reports.view import Report, report_view
from headcount.reports.write import write_report

__all__ = [
    "Report",
    "Run",
    "read_run",
    "render",
    "report_view",
    "write_figures",
    "write_report",
]
