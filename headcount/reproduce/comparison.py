"""What documents of pruning share: which column is compared, in what unit, how much is free."""

from statistics import fmean

import pandas as pd

from headcount.reports.curve_points import CurvePoints

IN_POINTS = ("accuracy", "f1", "matthews", "spearman")
"""Scores whose best is 1, which papers print in points, a hundred times that."""


def scale(quantity: str) -> float:
    """From a score or a loss to what is printed."""
    return 100.0 if quantity in IN_POINTS else 1.0


def in_unit(quantity: str, higher_is_better: bool) -> str:
    """The quantity as a document names it.

    >>> in_unit("spearman", True), in_unit("perplexity", False)
    ('spearman in points', 'perplexity (lower is better)')
    """
    unit = " in points" if quantity in IN_POINTS else ""
    return f"{quantity}{unit}{'' if higher_is_better else ' (lower is better)'}"


def score_column(frame: pd.DataFrame) -> str:
    """The test set's score if there is one, else the development set's; else their losses."""
    order = ("test_score", "score", "test_loss", "loss")
    return next(name for name in order if name in frame.columns)


def free_share(
    frame: pd.DataFrame, method: str, higher_is_better: bool, tolerance: float = 0.01
) -> float:
    """The largest share of the heads that can go at a relative loss of score within a tolerance.

    Larger cuts count only where all smaller ones are within it too.
    """
    column, points = score_column(frame), CurvePoints.of(frame)
    sign = 1 if higher_is_better and column.endswith("score") else -1
    whole = points.whole.numbers[column]
    share = 0.0
    for keep in points.keeps:
        values = points.values(method, keep, column)
        if not values or not sign * (whole - fmean(values)) <= tolerance * abs(whole):  # or NaN
            break
        share = 1 - keep / points.whole.keep
    return share
