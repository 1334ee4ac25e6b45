"""Curve: how good a model is with fewer and fewer heads, for every method under the same budgets.

Pruned heads are gated, not cut out; the compact model would give the same outputs. A method that
ranks extends its order from budget to budget. A method that learns its choice trains for each one.

Reference: Analyzing Multi-Head Self-Attention (Voita et al., 2019), figures 7 to 10, https://arxiv.org/abs/1905.09418
"""  # noqa: E501

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import SupportsIndex, final

from headcount.core import (
    ChangedModelError,
    InputError,
    Kept,
    Plan,
    PluginError,
    PluginWarning,
    UnsuitedError,
    paced,
    short_hash,
)
from headcount.models import signature
from headcount.pruning.before_after import evaluate_gated
from headcount.pruning.budget import by_site
from headcount.pruning.context import PruningContext
from headcount.pruning.methods.method import Method, Selection, check_finetunings
from headcount.pruning.methods.registry import chosen
from headcount.results import ALL, CurvePoint, CurvePoints
from headcount.tasks import Task
from headcount.training import FinetuneConfig, finetune

WITH_SEEDS = frozenset({"random"})
"""Methods that run with every seed; the others run with the first seed."""


@final
@dataclass(frozen=True)
class Point:
    """One point of a curve before it is measured."""

    method: str
    seed: int
    keep: int
    is_control: bool = False
    """Whether this is the method's control: the dense model trained for as many updates."""

    @property
    def name(self) -> str:
        """The point's name in the file."""
        return f"{'control of ' * self.is_control}{self.method}/{self.seed}/{self.keep}"


def points(methods: Iterable[str], keeps: Iterable[int], seeds: Sequence[int]) -> list[Point]:
    """All points, ordered by method, then seed, then number of heads, most heads first.

    >>> [point.name for point in points(["norm", "random"], [2, 4], [0, 1])]
    ['norm/0/4', 'norm/0/2', 'random/0/4', 'random/0/2', 'random/1/4', 'random/1/2']
    """
    budgets, own = (
        sorted({*keeps}, reverse=True),
        {method: seeds if method in WITH_SEEDS else seeds[:1] for method in methods},
    )
    found = (
        Point(method, seed, keep) for method, its in own.items() for seed in its for keep in budgets
    )
    total = len(budgets) * sum(map(len, own.values()))
    return [*paced(found, total, "points", held=True)]


@final
@dataclass(frozen=True, eq=False)
class Trial:
    """The model, data and options with which every point is measured."""

    context: PruningContext
    """Model, data to choose heads with, units; its state folder holds the points so far."""
    dev: Task
    """Development set on which every point is measured."""
    test: Task | None = None
    """Test set, which no choice depends on, measured too."""
    scores: bool = True
    """Whether to measure scores; losses alone are much cheaper in translation."""
    controls: bool = True
    """Whether to also measure, for each method that trains weights, the dense model trained for as
    many updates without a teacher."""

    @property
    def signature(self) -> str:
        """Signature of everything that all points depend on."""
        context, test = self.context, self.test
        return signature(
            context.loaded,
            context.train.sha256,
            task=context.train.name,
            dev=self.dev.sha256[:12],
            test=None if test is None else test.sha256[:12],
            metric=self.dev.signature,
            scores=self.scores,
            units=context.units.sha256[:12],
            calibration=context.calibration,
        )

    def measured(self, point: Point, selection: Selection, seconds: float) -> CurvePoint:
        """The point with the kept heads, and losses and scores on all data sets."""
        heads = selection.plan.kept_heads(self.context.units.heads)
        numbers: dict[str, float] = {}
        for prefix, task in (("", self.dev), ("test_", self.test)):
            if task is not None:
                stage = f"gated model on {'test' if prefix else 'dev'}"
                found = self._numbers(selection, self.context.watched(task, stage))
                numbers |= {f"{prefix}{name}": number for name, number in found.items()}
        return CurvePoint(
            method=point.method,
            seed=point.seed,
            keep=point.keep,
            is_control=point.is_control,
            kept={
                site: sum(head.site == site for head in heads)
                for site in self.context.units.heads.counts
            },
            numbers=numbers,
            seconds=round(seconds, 2),
            heads=tuple(heads),
        )

    def _numbers(self, selection: Selection, task: Task) -> dict[str, float]:
        max_tokens = self.context.max_tokens
        found = evaluate_gated(selection.loaded, selection.plan, task, max_tokens, self.scores)
        return {"loss": found.loss} | ({"score": task.score(found)} if self.scores else {})


def curve(
    trial: Trial,
    methods: Mapping[str, Method],
    keeps: Sequence[SupportsIndex],
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    key: str = "",
    with_dense: bool = True,
    unsuited: Callable[[str, str], None] | None = None,
    failed: Callable[[str, str], None] | None = None,
) -> CurvePoints:
    """One point per method, seed and budget, after the points of the dense model.

    Args:
        trial: model and data.
        methods: methods by their name in the table.
        keeps: numbers of heads to keep, out of those that can be pruned.
        seeds: seeds of `random`; all other methods use the first.
        key: further settings that must be the same for points to be reused.
        with_dense: whether to measure the dense model.
        unsuited: called with the name of each method that can't choose heads of this model, and the
            reason; the curve continues without it. None raises the error instead.
        failed: called likewise with each method of a plug-in that fails, and with those that can't
            be measured on a model that it changed. None warns instead.

    Raises:
        InputError: for a budget that can't be met, points of another curve, or a method that can't
            choose heads of this model.
    """
    may_go = trial.context.units.alone()
    budgets = [by_site(may_go, keep)[None] for keep in keeps]
    for method in methods.values():
        check_finetunings(trial.context, method)
    wanted = points(methods, budgets, seeds)
    dense = [Point(ALL, 0, len(may_go.heads))] if with_dense else []
    controls = [
        Point(name, seeds[0], len(may_go.heads), is_control=True)
        for name in trained(methods)
        if trial.controls
    ]
    with ExitStack() as stack:
        if trial.context.state is None:  # a temporary one still makes each ranking only once
            folder = Path(stack.enter_context(TemporaryDirectory()))
            trial = replace(trial, context=replace(trial.context, state=folder))
        every, key = [*dense, *controls, *wanted], f"{trial.signature}|{key}"
        return _measured(trial, dict(methods), every, key, unsuited, failed)


def _measured(
    trial: Trial,
    methods: dict[str, Method],
    wanted: Sequence[Point],
    key: str,
    unsuited: Callable[[str, str], None] | None,
    failed: Callable[[str, str], None] | None,
) -> CurvePoints:
    """All points that are not done already; methods that do not suit the model are left out."""
    context, reasons = trial.context, dict[str, str]()
    assert context.state is not None
    done = Kept(context.state / "points.json", key, "the points of a curve", CurvePoint)
    for number, point in enumerate(paced(wanted, len(wanted), "points")):
        context.progress("points", number, len(wanted))
        if point.method not in (ALL, *methods):
            continue
        try:
            done.once(_name(point, methods), partial(_point, trial, methods, point))
        except UnsuitedError as error:
            if unsuited is None:
                raise
            left, tell = {point.method: str(error)}, unsuited
        except PluginError as error:
            left, tell = _broken(error, point, wanted[number:], methods), failed or _warn
        else:
            continue
        for name, why in left.items():
            del methods[name]
            reasons[name] = why
            tell(name, why)
    if not methods:
        raise InputError(f"No method can choose heads of this model: {reasons}")
    context.progress("points", len(wanted), len(wanted))
    kept = [point for point in wanted if point.method in (ALL, *methods)]
    return CurvePoints(tuple(done[_name(point, methods)] for point in kept))


def _broken(
    error: PluginError, point: Point, later: Sequence[Point], methods: Mapping[str, Method]
) -> dict[str, str]:
    """Why methods are left out since that of a plug-in failed at a point, by their names.

    What was measured before it changed the model is kept; nothing can be measured after that.

    Raises:
        PluginError: The same, if no method is left, or the task failed.
    """
    method, found = methods.get(point.method), {point.method: str(error)}
    if isinstance(error, ChangedModelError):
        why = f"not measured on the model that {point.method} changed"
        found = {each.method: why for each in later if each.method in methods} | found
    if error.thing is not method or len(found) == len(methods):
        raise error
    return found


def _warn(name: str, why: str) -> None:
    warnings.warn(f"{name} is left out: {why}", PluginWarning, stacklevel=4)


def _point(trial: Trial, methods: Mapping[str, Method], point: Point) -> CurvePoint:
    start = perf_counter()
    selection = _chosen(trial, methods, point)
    return trial.measured(point, selection, perf_counter() - start)


def _name(point: Point, methods: Mapping[str, Method]) -> str:
    """Name of a point in the file; it differs for a method with other options."""
    made_by = methods.get(point.method)
    return f"{point.name} {short_hash(repr(made_by), 8)}"


def trained(methods: Mapping[str, Method]) -> dict[str, FinetuneConfig]:
    """Tunings of the methods that train weights for a point, by method."""
    tunings = {name: method.tuning for name, method in methods.items()}
    return {name: each for name, each in tunings.items() if each and each.trained != "gates"}


def _chosen(trial: Trial, methods: Mapping[str, Method], point: Point) -> Selection:
    """The choice of a method for a point; its state has a folder of its own."""
    context = trial.context
    if point.method == ALL:
        heads = context.units.heads
        return Selection(Plan.keeping(heads, heads), context.loaded)
    if point.is_control:
        return _control(context, trained(methods), point)
    own = None if context.state is None else context.state / f"{point.method}-{point.seed}"
    others = len(context.units.heads) - len(context.units.alone().heads)
    given = replace(context, seed=point.seed, state=own)
    return chosen(methods[point.method], given, point.keep + others)


def _control(
    context: PruningContext, tunings: Mapping[str, FinetuneConfig], point: Point
) -> Selection:
    """The dense model, trained as a method trains; methods that train alike share one training."""
    wanted = tunings[point.method].of_control()
    first = next(name for name, tuning in tunings.items() if tuning.of_control() == wanted)
    state = context.state and context.state / f"control-{first}"
    run = replace(context, seed=point.seed).training_run("control", state)
    tuned = finetune(context.loaded, context.train, wanted, run=run)
    heads = context.units.heads
    return Selection(Plan.keeping(heads, heads), tuned.loaded)
