"""What documents of pruning share: which column is compared, and how much is free."""

import pandas as pd

from headcount.pruning.points import ALL


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
    column = score_column(frame)
    sign = 1 if higher_is_better and column.endswith("score") else -1
    whole = frame[frame["method"] == ALL].iloc[0]
    share = 0.0
    rows = frame[frame["method"] == method].groupby("keep")[column].mean()
    for keep, value in rows.sort_index(ascending=False).items():
        if not sign * (whole[column] - value) <= tolerance * abs(whole[column]):  # or NaN
            break
        share = 1 - float(keep) / float(whole["keep"])  # type: ignore[arg-type]
    return share
