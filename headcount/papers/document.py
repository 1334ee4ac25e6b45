"""The document of a paper: which numbers it compares, in which words and units."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from headcount.core import SITES, Text, amount
from headcount.numbers import percent
from headcount.papers.records import ContributionRow, TunedRow
from headcount.probing import Probed, ProbeRow
from headcount.results import CurvePoints

Row = ContributionRow | ProbeRow | TunedRow
"""A number with its interval."""

IN_POINTS = ("accuracy", "f1", "matthews", "spearman")
"""Scores with a maximum of 1, which papers print in points, that is, times 100."""


def scale(quantity: str) -> float:
    """The factor from a score or loss to the printed number."""
    return 100.0 if quantity in IN_POINTS else 1.0


def in_unit(quantity: str, higher_is_better: bool) -> str:
    """The name of the quantity in a document, with its unit.

    >>> in_unit("spearman", True), in_unit("perplexity", False)
    ('spearman in points', 'perplexity (lower is better)')
    """
    unit = " in points" if quantity in IN_POINTS else ""
    return f"{quantity}{unit}{'' if higher_is_better else ' (lower is better)'}"


def per_cent(share: float) -> str:
    """A share as papers print it, under a header that says what it is.

    >>> per_cent(0.452)
    '45'
    """
    return percent(share, 0, "")


def change(value: float, sure: bool = False) -> str:
    """A signed change of a score, with an asterisk if significant.

    >>> change(-1.312), change(0.204, sure=True), change(float("nan"))
    ('−1.31', '+0.20*', '–')
    """
    if value != value:
        return "–"
    text = f"{value:+.2f}".replace("+0.00", "0.00").replace("-0.00", "0.00").replace("-", "−")
    return f"{text}*" if sure else text


def score_column(points: CurvePoints) -> str:
    """The first available column: test score, development score, test loss, development loss."""
    order = ("test_score", "score", "test_loss", "loss")
    return next(name for name in order if name in points)


def number(value: float, low: float, high: float, factor: float = 100.0, digits: int = 1) -> str:
    """A number with its interval; a dash if it is unknown, alone if it has no interval.

    >>> number(0.5631, 0.552, 0.571), number(0.5631, math.nan, math.nan, 1.0, 2)
    ('56.3 (55.2 to 57.1)', '0.56')
    """
    if math.isnan(value):
        return "–"
    here, *ends = (f"{factor * each:.{digits}f}" for each in (value, low, high))
    return here if math.isnan(low) else f"{here} ({ends[0]} to {ends[1]})"


def cell(row: Row | None, factor: float = 100.0, digits: int = 1) -> str:
    """The number of a row with its interval, in points by default; a dash if there is none."""
    return "–" if row is None else number(row.value, row.low, row.high, factor, digits)


def sites_of(rows: Iterable[ContributionRow | TunedRow]) -> list[str]:
    """The sites that some rows are about, in the order of documents."""
    found = {row.site for row in rows}
    return [site for site in SITES if site in found]


def names(files: Sequence[str]) -> str:
    """The names of some files, without their folders."""
    return ", ".join(Path(file).name for file in files)


def verdict(holds: bool, claim: str, found: str) -> Text:
    """What a paper claims, and whether our numbers say so.

    >>> verdict(True, "Attention knows trees", "60 against 30").text
    'Attention knows trees: holds (60 against 30).'
    """
    return Text(f"{claim}: {'holds' if holds else 'does not hold'} ({found}).")


def about(found: Probed) -> Text:
    """The sentence that names the model and the data of probes."""
    record = found.record
    return Text(
        f"Here: {record.model} ({amount(record.heads, 'head')} in "
        f"{amount(record.layers, 'layer')}), trained on "
        f"{amount(record.train_sentences, 'sentence')} ({amount(record.train_words, 'word')}) of "
        f"{names(record.train)}, measured on {amount(record.test_sentences, 'sentence')} "
        f"({amount(record.test_words, 'word')}) of {names(record.test)}. Intervals are 95 %, by a "
        "bootstrap over sentences."
    )


def apart(above: ProbeRow | None, below: ProbeRow | None) -> bool:
    """Whether one number is above another and their intervals do not overlap."""
    return above is not None and below is not None and above.low > below.high
