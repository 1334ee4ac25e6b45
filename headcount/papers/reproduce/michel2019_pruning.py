"""Section 4 of Are Sixteen Heads Really Better than One?: curves of pruning, and speed (table 4).

Heads are pruned by the paper's importance, re-estimated after every tenth of the heads, and for
comparison in the order of the measured score differences of single heads and in random orders.

Reference: Are Sixteen Heads Really Better than One? (Michel et al., 2019), sections 4 and 5,
https://arxiv.org/abs/1905.10650
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from headcount.compaction import compact
from headcount.core import Block, Document, Head, Heading, ModelError, Table, Text, Warned, amount
from headcount.importance import DeltaOf
from headcount.models import Loaded, plan_for
from headcount.papers.document import per_cent, score_column
from headcount.papers.reproduce.experiment import PruningExperiment
from headcount.pruning import Greedy, Method, Random, Units, method
from headcount.pruning import share as share_of
from headcount.results import Curve, CurvePoints
from headcount.speed import Options, Speed, compare_speed

SEEDS = 5
"""Number of random orders."""


def reproduce_michel2019_pruning(
    experiment: PruningExperiment, keeps: Sequence[int] = (), quantity: DeltaOf = "score"
) -> Document:
    """Prune tenth by tenth, time the model without half its heads, and return the document.

    Args:
        experiment: the model, its data and the folder.
        keeps: numbers of kept heads; by default one to nine tenths of the heads are pruned.
        quantity: the quantity whose differences order the heads; the paper uses the score, which
            takes a beam search per head in translation.

    Raises:
        InputError: if a budget can't be met.
    """
    found = michel2019_curve(experiment, keeps, quantity)
    return timed_document(experiment, found, quantity)


def michel2019_curve(
    experiment: PruningExperiment, keeps: Sequence[int], quantity: DeltaOf
) -> Curve:
    """The points of the pruning, with half of the heads among them; their curve is written."""
    half = share_of(experiment.units, 0.5)
    budgets = sorted({*(keeps or tenths(experiment.units)), half})
    seed = experiment.settings.seed
    methods = michel2019_methods(quantity)
    return experiment.curve(methods, budgets, range(seed, seed + SEEDS))


def timed_document(experiment: PruningExperiment, found: Curve, quantity: DeltaOf) -> Document:
    """Time the model without half its heads, and return the document.

    Nothing else should run meanwhile, not even a progress bar: it would be timed, too.
    """
    half = share_of(experiment.units, 0.5)
    chosen = next(each for each in found.points.first_seed("gradient") if each.keep == half)
    speed = _speed(experiment.loaded, chosen.heads)
    return pruning_document(found, experiment.splits.dev.higher_is_better, speed, quantity)


def _speed(loaded: Loaded, kept: Sequence[Head]) -> Speed | str:
    """The speed of the model with only some heads, or why it was not measured."""
    length = min(128, loaded.max_length or 128)
    try:
        smaller = replace(loaded, model=compact(loaded, plan_for(loaded, kept)))
    except ModelError as error:
        return f"Not measured: {error}"
    return compare_speed(loaded, smaller, Options(length=(length,), modes=("forward",)))


def michel2019_methods(quantity: DeltaOf) -> Mapping[str, Method]:
    """Pruning by importance, by measured difference, and at random.

    Args:
        quantity: the quantity whose differences order the heads; the paper uses the score.
    """
    return {
        "gradient": method("gradient", step=0.1, level="sample", normalise=True),
        "ablation": Greedy(1.0, quantity),
        "random": Random(),
    }


FREE = {"WMT": 0.2, "BERT, MNLI": 0.4, "BERT, SST-2": 0.6}
"""Share of heads that the paper prunes without notable loss (section 4.2, figures 3 and 5)."""

SPEED = {1: 1.9, 4: 2.7, 16: 17.5, 64: 17.5}
"""Table 4: gain in examples per second of BERT without half its heads, %, by batch size."""


def tenths(units: Units) -> list[int]:
    """Numbers of kept heads when one to nine tenths are pruned; half is among them."""
    return [share_of(units, (10 - part) / 10) for part in range(1, 10)]


def pruning_document(
    found: Curve, higher_is_better: bool, speed: Speed | str, quantity: DeltaOf
) -> Document:
    """The document: our numbers beside the published ones; speed, or why it is missing."""
    points = found.points
    rows = [[f"paper, {name}", "gradient", per_cent(part), "–"] for name, part in FREE.items()]
    rows += [
        _free_row(points, name, higher_is_better)
        for name in michel2019_methods(quantity)
        if name in points.methods
    ]
    has_test = "test_score" in points or "test_loss" in points
    measured = "test set" if has_test else "same examples"
    header = ["", "order", "% of heads pruned", f"worse by, % ({measured})"]
    where = (
        "on the development set. The test set of the last column did not choose the share"
        if has_test
        else "on the examples of the last column, which is therefore optimistic"
    )
    papers = "" if quantity == "score" else "; the paper uses the score"
    return Document(
        "Pruning (Michel et al., 2019, sections 4 and 5), with our numbers",
        (
            Text(f"Score: {found.record.metric}. The curves are in curve.md."),
            Heading("How many heads can be pruned (section 4.2)"),
            Table.of(header, rows, "Share of heads that can be pruned by order"),
            Text(
                "The paper says 'without noticeable impact'; here that means a loss of at most 1 % "
                f"of the score, averaged over seeds, {where}. “ablation” orders heads by the "
                f"differences of the {quantity} without a head{papers}."
            ),
            Heading("Speed of a model without half its heads (section 5, table 4)"),
            *((Text(speed),) if isinstance(speed, str) else _speeds(speed)),
        ),
    ).ending((), found.record.signature)


def _free_row(points: CurvePoints, method: str, higher_is_better: bool) -> list[str]:
    """The share chosen on the development set, and its cost on the test set, if there is one."""
    keep = free_keep(points, method, higher_is_better)
    lost = 0.0
    if keep != points.dense.keep:
        lost = _loss(points, method, keep, score_column(points), higher_is_better)
    cost = "–" if math.isnan(lost) else f"{100 * lost:.1f}".replace("-", "−")
    return ["here", method, per_cent(1 - keep / points.dense.keep), cost]


def free_keep(
    points: CurvePoints, method: str, higher_is_better: bool, tolerance: float = 0.01
) -> int:
    """The fewest heads that can be kept while the development score drops by at most `tolerance`.

    The tolerance is relative. A cut counts only if all smaller cuts are within the tolerance too.
    """
    column = next(name for name in ("score", "loss") if name in points)
    found = points.dense.keep
    for keep in points.keeps:
        if not _loss(points, method, keep, column, higher_is_better) <= tolerance:  # or NaN
            break
        found = keep
    return found


def _loss(
    points: CurvePoints, method: str, keep: int, column: str, higher_is_better: bool
) -> float:
    """How much worse a column is than the dense model's, as a share of it; NaN if unknown."""
    sign = 1 if higher_is_better and column.endswith("score") else -1
    dense, values = points.dense.numbers[column], points.values(method, keep, column)
    return sign * (dense - fmean(values)) / abs(dense) if values else math.nan


def _speeds(speed: Speed) -> Iterator[Block]:
    rows = [
        [
            str(each.case.batch),
            f"{each.case.mode}, {amount(each.case.length, 'token')}",
            f"{SPEED[each.case.batch]:+.1f}" if each.case.batch in SPEED else "–",
            _gain(each.speedup.value),
            f"{_gain(each.speedup.low)} to {_gain(each.speedup.high)}",
            _gain(each.ceiling),
        ]
        for each in speed.timings
    ]
    names = ["batch", "case", "paper, %", "here, %", "95 % interval", "ceiling by FLOPs, %"]
    yield Table.of(names, rows, "Gain in speed by case")
    yield from map(Warned, speed.warnings())


def _gain(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f}".replace("-", "−")
