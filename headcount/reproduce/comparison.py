"""What documents of pruning share: which column is compared, and how much is free."""

from statistics import fmean

import pandas as pd

from headcount.reports.curve_points import CurvePoints


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
