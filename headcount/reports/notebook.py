"""What notebooks display of results: the report, a card, tables and a curve."""

import base64
import io
import math
from html import escape
from pathlib import Path

import pandas as pd

from headcount import numbers
from headcount.core import InputError, amount, styled
from headcount.importance import Assessment
from headcount.reports.figures.curves import score_curve
from headcount.reports.names import MEASURES
from headcount.reports.page.html import render, render_card, report_view
from headcount.reports.page.shown import Shown
from headcount.reports.sentences import short_name
from headcount.reports.worth import effects_in, site_sentence, verdict
from headcount.results import Analysis, CurvePoints, read_run

SHOWN_HEADS = 10
"""Number of heads in the table of an assessment."""
CARD_HEIGHT = 620
"""Height of a card in a notebook, in pixels."""


def notebook_html(result: object) -> str:
    """What a notebook displays of a result: HTML that needs no network."""
    if isinstance(result, Analysis):
        return show_analysis(result)._repr_html_()
    if isinstance(result, CurvePoints):
        return _curve(result)
    if isinstance(result, Assessment):
        return _assessment(result)
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


def _assessment(assessment: Assessment) -> str:
    """The most important heads by every score, and how many matter."""
    record, frame = assessment.record, assessment.heads.frame
    scores = [str(name) for name in frame if str(name) in MEASURES]
    first = "ablation_delta" if "ablation_delta" in scores else scores[0]
    ordered = frame.sort_values(first, ascending=False, kind="stable").head(SHOWN_HEADS)
    shown = {"head": ordered["head"]}
    for name in scores:
        shown[MEASURES[name].label] = ordered[name].map(MEASURES[name].show)
    found = (
        f"{amount(len(frame), 'head')} on {amount(record.num_examples, 'example')} of {record.task}"
    )
    sentences = [f"{found}; the {len(ordered)} with the highest {MEASURES[first].label}."]
    if {"ablation_delta", "ablation_p"} <= set(scores):
        sentences += verdict(effects_in(frame), record)
    sentences += filter(None, [site_sentence(record)])
    return f"<p>{escape(' '.join(sentences))}</p>" + _table(pd.DataFrame(shown))


def _curve(points: CurvePoints) -> str:
    """The curve of the score, or of the loss, and its numbers."""
    columns = [name for name in ("test_score", "score", "test_loss", "loss") if name in points]
    column = next(name for name in columns if math.isfinite(points.dense.numbers[name]))
    label = "score" if "score" in column else "loss"
    file = io.BytesIO()
    with styled():
        figure = score_curve(points, column, label)
        figure.savefig(file, format="svg", metadata={"Date": None}, facecolor="white")
    image = base64.b64encode(file.getvalue()).decode()
    rows = {
        name: [_mean(points.values(name, keep, column)) for keep in points.keeps]
        for name in points.methods
    }
    frame = pd.DataFrame(rows, index=[f"{keep} kept" for keep in points.keeps]).T.reset_index()
    dense = numbers.effect(points.dense.numbers[column])
    said = (
        f"{label} on {'test' if 'test' in column else 'development'} data; {dense} with all heads"
    )
    return (
        f'<img alt="{escape(said)}" src="data:image/svg+xml;base64,{image}">'
        f"<p>{escape(said[0].upper() + said[1:])}.</p>"
        + _table(frame.rename(columns={"index": "method"}))
    )


def _mean(values: list[float]) -> str:
    return numbers.effect(sum(values) / len(values)) if values else "–"


def _table(frame: pd.DataFrame) -> str:
    return frame.to_html(index=False, border=0, escape=True)
