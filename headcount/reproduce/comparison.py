"""Shared parts of documents on pruning: the compared column, its unit, and the free share."""

from statistics import fmean

import pandas as pd

from headcount.results import CurvePoints

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


def score_column(frame: pd.DataFrame) -> str:
    """The first available column: test score, development score, test loss, development loss."""
    order = ("test_score", "score", "test_loss", "loss")
    return next(name for name in order if name in frame.columns)


def free_share(
    frame: pd.DataFrame, method: str, higher_is_better: bool, tolerance: float = 0.01
) -> float:
    """The largest share of heads that can be pruned while the score drops by at most `tolerance`.

    The tolerance is relative. A cut counts only if all smaller cuts are within the tolerance too.
    """
    column, points = score_column(frame), CurvePoints.of(frame)
    sign = 1 if higher_is_better and column.endswith("score") else -1
    dense = points.dense.numbers[column]
    share = 0.0
    for keep in points.keeps:
        values = points.values(method, keep, column)
        if not values or not sign * (dense - fmean(values)) <= tolerance * abs(dense):  # or NaN
            break
        share = 1 - keep / points.dense.keep
    return share
