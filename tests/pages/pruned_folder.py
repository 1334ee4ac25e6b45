"""A run with a curve, and the folder of a model pruned from it, for the tests of the report."""

from collections import Counter
from pathlib import Path

from headcount.core import Head
from headcount.results import (
    ALL,
    RANDOM,
    CeilingRecord,
    ChoiceRecord,
    Curve,
    CurvePoint,
    CurvePoints,
    CurveRecord,
    DataSetChange,
    MetricChange,
    PruneRecord,
    Survival,
    read_run,
)

BUDGETS = (17, 11, 5)
"""Heads kept on the curve of a run with 24 heads."""


def curve_points(heads: list[str]) -> CurvePoints:
    """`fisher` is best by loss and keeps the first heads, `norm` the last; two random orders."""

    def point(method: str, keep: int, loss: float, score: float, seed: int = 0) -> CurvePoint:
        kept = heads[:keep] if method != "norm" else heads[-keep:]
        return CurvePoint(
            method=method,
            seed=seed,
            keep=keep,
            kept=Counter(Head.parse(head).site for head in kept),
            numbers={"loss": loss, "test_loss": loss + 0.1, "test_score": score},
            heads=tuple(map(Head.parse, kept)),
        )

    points = [point(ALL, len(heads), 1.0, 41.3)]
    for place, keep in enumerate(BUDGETS):
        points.append(point("fisher", keep, 1.3 + place, 37.1 - 11 * place))
        points.append(point("norm", keep, 1.7 + place, 38.9 - 13 * place))
        points += [
            point(RANDOM, keep, 2.3 + place + seed, 19.7 - 5 * place - 3 * seed, seed)
            for seed in (0, 1)
        ]
    return CurvePoints(tuple(points))


def write_curve_beside(run_folder: Path) -> CurvePoints:
    """Write a curve into a run folder."""
    run, folder = read_run(run_folder), run_folder / "curve"
    points = curve_points([row.head for row in run.rows])
    folder.mkdir()
    record = CurveRecord(
        metric="bleu",
        heads=run.record.sites,
        signature="task:similarity",
        sentences=("Best mean BLEU: norm (25.9).",),
    )
    Curve(record, points).write(folder)
    return points


def prune_record(heads: list[str], kept: list[str]) -> PruneRecord:
    """The record of a model that keeps some heads, with numbers on test data."""
    change = DataSetChange(
        89,
        MetricChange("bleu", True, 41.3, 37.1, 4.2, 1.1, 7.3, 0.003),
        MetricChange("loss", False, 1.0, 1.3, 0.3, 0.2, 0.4, 0.001),
    )
    return PruneRecord(
        model="dense",
        heads={},
        kept=tuple(kept),
        pruned=tuple(head for head in heads if head not in kept),
        choice=ChoiceRecord(method="fisher", options="Fisher()", limit={"keep": 13}, keep=13),
        data_sets={"test": change},
        functions=(Survival("positional", 7, ("enc.0.1",), ("enc.0.1",), ("enc.0.2",)),),
        ceiling=CeilingRecord(128, 1.37),
        warnings=("89 examples are few",),
    )
