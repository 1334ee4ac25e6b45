"""Differentiable Subset Pruning of Transformer Heads: its comparison of methods by budget.

Reference: Differentiable Subset Pruning of Transformer Heads (Li et al., 2021), sections 5 and 6,
https://arxiv.org/abs/2108.04657
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from headcount.core import Document, InputError, Table, Text
from headcount.papers.document import change, in_unit, scale, score_column
from headcount.papers.reproduce.experiment import PruningExperiment
from headcount.papers.reproduce.gate_densities import GateRecorder, with_densities
from headcount.pruning import Method, li2021, michel2019, voita2019, with_options
from headcount.results import Curve
from headcount.training import Trained

JOINT, PIPELINED, STRAIGHT = "subset-joint", "subset-pipelined", "subset-straight-through"
WAYS: Mapping[str, tuple[Trained, bool]] = {
    JOINT: ("all", False),
    PIPELINED: ("gates", False),
    STRAIGHT: ("all", True),
}
"""The paper's own methods: what is trained, and whether gates are hard in training."""


def reproduce_li2021(
    experiment: PruningExperiment, keeps: Sequence[int], tune: Mapping[str, Any] | None = None
) -> Document:
    """Prune with every method under every budget, and return the document.

    Args:
        experiment: the model, its data and the folder.
        keeps: numbers of kept heads among those that may be pruned.
        tune: fields of every training with gates, e.g. `{"updates": 2000}`.

    Raises:
        InputError: if a budget can't be met, a training is impossible, or `tune` sets `trained`.
    """
    methods = dict(li2021_methods(tune, experiment.splits.train.name))
    recorder = GateRecorder(methods["l0"], "l0")
    methods["l0"] = recorder
    found = experiment.curve(methods, keeps, [experiment.settings.seed])
    document = li2021_document(found, experiment.splits.dev.higher_is_better)
    return with_densities(document, recorder, experiment, found.points)


def li2021_methods(
    tune: Mapping[str, Any] | None = None, task: str = "translation"
) -> Mapping[str, Method]:
    """The paper's methods and those it compares them with.

    Args:
        tune: fields of every training, with their values.
        task: name of the task; the paper's first temperature is another in translation.

    Raises:
        InputError: if `tune` sets `trained`, in which the paper's methods differ.
    """
    tune = tune or {}
    if "trained" in tune:
        raise InputError(
            "Joint and pipelined subsets differ in what is trained. Leave trained out of --tune"
        )
    options = li2021((), task)
    found: dict[str, Method] = {
        name: with_options(
            replace(
                options,
                tuning=replace(options.tuning, trained=trained, **tune),
                straight_through=straight,
            )
        )
        for name, (trained, straight) in WAYS.items()
    }
    gates = voita2019((), "")
    found["l0"] = with_options(replace(gates, tuning=replace(gates.tuning, **tune)))
    found["gradient"] = with_options(michel2019())
    return found


def li2021_document(found: Curve, higher_is_better: bool) -> Document:
    """The document: every method's score under every budget, and the paper's claim."""
    points, metric = found.points, found.record.metric
    column, names = score_column(points), [*li2021_methods()]
    times, unit = scale(metric), in_unit(metric, higher_is_better)
    dense = times * points.dense.numbers[column]
    rows = [[f"{points.dense.keep} (all)", *[f"{dense:.2f}"] * len(names)]]
    if points.controls:
        controls = [points.controls.get(name) for name in names]
        reported = [f"{times * each.numbers[column]:.2f}" if each else "" for each in controls]
        rows.append([f"{points.dense.keep} (all), control", *reported])
    rows += [
        [
            str(keep),
            *(
                f"{times * value:.2f}"
                for name in names
                for value in points.values(name, keep, column)
            ),
        ]
        for keep in points.keeps
    ]
    gap = times * (points.mean(JOINT, column) - points.mean("l0", column))
    return Document(
        "Differentiable subset pruning (Li et al., 2021), with our numbers",
        (
            Text(f"{unit}; {column} of curve.parquet, figures in curve.md."),
            Table.of(["heads kept", *names], rows, "Scores by budget and method"),
            Text(
                "The paper claims that subsets are at least as good as Hard Concrete gates (l0) "
                "and keep exactly the requested number of heads. Here, joint subset minus l0, mean "
                f"over the budgets: {change(gap)}."
            ),
        ),
    ).ending((), found.record.signature)
