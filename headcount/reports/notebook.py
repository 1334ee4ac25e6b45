"""What notebooks display of results: the report, a card, and the documents of others."""

import math
from pathlib import Path

from headcount.core import Chart, Document, HeadTable, InputError
from headcount.reports.documents.curve import numbers_table
from headcount.reports.figures.curves import score_curve
from headcount.reports.page.html import document_page, render, render_card, report_view
from headcount.reports.page.sections import DOCUMENTS, document_of
from headcount.reports.page.shown import HEIGHT, Shown, framed
from headcount.reports.sentences import short_name
from headcount.results import Analysis, CurvePoints, Result, read_run

CARD_HEIGHT = 620
"""Height of a card in a notebook, in pixels."""


def notebook_html(result: object) -> str:
    """What a notebook displays of a result: HTML that needs no network."""
    if isinstance(result, Analysis):
        return show_analysis(result)._repr_html_()
    if isinstance(result, CurvePoints):
        shown = _curve(result)
        return framed(shown.title, document_page(shown), HEIGHT)
    if isinstance(result, Result) and type(result) in DOCUMENTS:
        shown = document_of(result)
        return framed(shown.title, document_page(shown, result), HEIGHT)
    if isinstance(result, Result):  # a paper's
        return HeadTable(result.frame)._repr_html_()
    raise InputError(f"Expected a result that can be drawn, got a {type(result).__name__}.")


def show_analysis(analysis: Analysis | str | Path) -> Shown:
    """The report of an analysis, or of the folder of a run, as a page."""
    run = _run(analysis)
    page = render(report_view(run))
    return Shown(f"Report on {short_name(run.record.model)}", page)


def show_card(analysis: Analysis | str | Path, head: str) -> Shown:
    """The card of one head: what it does, how sure that is, and sentences.

    Args:
        analysis: an analysis, or the folder of a run, whose importance is shown, too.
        head: name of the head.

    Raises:
        InputError: for a head that was not analysed.
    """
    run = _run(analysis)
    names = [row.head for row in run.rows]
    if head not in names:
        raise InputError(
            f"Expected a head of the analysis ({names[0]} to {names[-1]}), got {head}."
        )
    page = render_card(report_view(run), head)
    return Shown(f"Card of {head} of {short_name(run.record.model)}", page, CARD_HEIGHT)


def _run(analysis: Analysis | str | Path) -> Analysis:
    return analysis if isinstance(analysis, Analysis) else read_run(Path(analysis))


def _curve(points: CurvePoints) -> Document:
    """The curve of the score, or of the loss, and its numbers."""
    columns = [name for name in ("test_score", "score", "test_loss", "loss") if name in points]
    column = next(name for name in columns if math.isfinite(points.dense.numbers[name]))
    label = "score" if "score" in column else "loss"
    says = f"{label.capitalize()} on {'test' if 'test' in column else 'development'} data"
    chart = Chart(column, says, lambda: score_curve(points, column, label))
    return Document("How many heads can be pruned", (chart, numbers_table(points, column, says)))
