"""Curve: how good a model is with fewer and fewer heads, for every method under the same budgets.

What a method chose is gated: nothing is cut, and the compact model would be the same. A method that
ranks goes on with its order from budget to budget, one that learns its choice is asked for each anew.

Reference: Analyzing Multi-Head Self-Attention (Voita et al., 2019), figures 7 to 10, https://arxiv.org/abs/1905.09418
"""  # noqa: E501

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import SupportsIndex, final

import pandas as pd

from headcount.errors import InputError, UnsuitedError
from headcount.pruning.budget import by_site
from headcount.pruning.gated import evaluate_gated
from headcount.pruning.method import Choice, Method, Setting, refuse_tunings
from headcount.pruning.plan import Plan
from headcount.pruning.points import ALL, CONTROL, Point, Row, points, read_points, write_points
from headcount.signature import signature
from headcount.tasks import Task
from headcount.training.finetune import finetune
from headcount.training.tuning import Tuning


@final
@dataclass(frozen=True, eq=False)
class Trial:
    """What every point is measured with."""

    setting: Setting
    """Model, data that is chosen with, units; its folder for the state holds the points so far."""
    dev: Task
    """What every point is measured on."""
    test: Task | None = None
    """Data that nothing is chosen on, measured too."""
    scores: bool = True
    """Whether scores are taken; else losses only, which of a translation are much cheaper."""
    controls: bool = True
    """Whether the whole model is also trained as long as each method trains the weights for a
    point, without a teacher, and measured then."""

    @property
    def signature(self) -> str:
        """What all of them depend on."""
        setting, test = self.setting, self.test
        return signature(
            setting.loaded, setting.train.sha256, task=setting.train.name,
            dev=self.dev.sha256[:12], test=None if test is None else test.sha256[:12],
            metric=self.dev.signature, scores=self.scores, units=setting.units.sha256[:12],
            calibration=setting.calibration,
        )  # fmt: skip

    def row(self, point: Point, choice: Choice, seconds: float) -> Row:
        """The row of a point: counts, names of the heads that stay, and what was measured."""
        staying = choice.plan.staying(self.setting.units.heads)
        row: Row = {"method": point.method, "seed": point.seed, "keep": point.keep}
        for site in self.setting.units.heads.counts:
            row[f"kept_{site}"] = sum(head.site == site for head in staying)
        for prefix, task in (("", self.dev), ("test_", self.test)):
            if task is not None:
                numbers = self._numbers(choice, task)
                row |= {f"{prefix}{name}": number for name, number in numbers.items()}
        return row | {"seconds": round(seconds, 2), "heads": " ".join(map(str, staying))}

    def _numbers(self, choice: Choice, task: Task) -> dict[str, float]:
        max_tokens = self.setting.max_tokens
        found = evaluate_gated(choice.loaded, choice.plan, task, max_tokens, self.scores)
        return {"loss": found.loss} | ({"score": task.score(found)} if self.scores else {})


def curve(
    trial: Trial,
    methods: Mapping[str, Method],
    keeps: Sequence[SupportsIndex],
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    key: str = "",
    with_whole: bool = True,
    unsuited: Callable[[str, str], None] | None = None,
) -> pd.DataFrame:
    """One row per method, seed and budget, after those of the whole model.

    Args:
        trial: model and data.
        methods: by the name that they have in the table.
        keeps: heads that stay, of those that may go.
        seeds: of `random`; every other method has the first of them.
        key: what else the points so far must have been made with.
        with_whole: whether the whole model is measured.
        unsuited: is told methods that can't choose heads of this model, with the reason, and the
            curve goes on without them; None for an error.

    Returns:
        Columns `method seed keep`, `kept_SITE` for each site, `loss score` on the development set,
        `test_loss test_score` where there is a test set, `seconds` that choosing took (a ranking
        goes on where it was at the point before), and `heads`, the names of those that stay.

    Raises:
        InputError: for a budget that can't be met, points of another curve, or a method that can't
            choose heads of this model.
    """
    may_go = trial.setting.units.alone()
    budgets = [by_site(may_go, keep)[None] for keep in keeps]
    for method in methods.values():
        refuse_tunings(trial.setting, method)
    suited = _Suited(dict(methods), unsuited)
    wanted = points(suited.methods, budgets, seeds)
    whole = [Point(ALL, 0, len(may_go.heads))] if with_whole else []
    controls = [
        Point(CONTROL + name, seeds[0], len(may_go.heads))
        for name in trained(suited.methods)
        if trial.controls
    ]
    with ExitStack() as stack:
        if trial.setting.state is None:  # so that rankings are made once all the same
            folder = Path(stack.enter_context(TemporaryDirectory()))
            trial = replace(trial, setting=replace(trial.setting, state=folder))
        return _measured(trial, suited, [*whole, *controls, *wanted], f"{trial.signature}|{key}")


def _measured(trial: Trial, suited: "_Suited", wanted: Sequence[Point], key: str) -> pd.DataFrame:
    """The rows of all points, of which those that are done already are not measured again."""
    setting = trial.setting
    assert setting.state is not None
    file = setting.state / "points.json"
    rows = read_points(file, key)
    for number, point in enumerate(wanted):
        setting.progress("points", number, len(wanted))
        if _name(point, suited.methods) in rows or not suited.has(point):
            continue
        start = perf_counter()
        with suited.or_left_out(point.method):
            choice = _chosen(trial, suited.methods, point)
            row = trial.row(point, choice, perf_counter() - start)
            rows[_name(point, suited.methods)] = row
        write_points(file, key, rows)
    if not suited.methods:
        raise InputError(f"no method can choose heads of this model: {suited.reasons}")
    setting.progress("points", len(wanted), len(wanted))
    names = [_name(point, suited.methods) for point in wanted if suited.has(point)]
    return pd.DataFrame([rows[name] for name in names])


def _name(point: Point, methods: Mapping[str, Method]) -> str:
    """Of a point in the file, where those of a method with other options are others."""
    made_by = methods.get(point.method.removeprefix(CONTROL))
    return f"{point.name} {hashlib.sha256(repr(made_by).encode()).hexdigest()[:8]}"


@final
@dataclass(frozen=True, eq=False)
class _Suited:
    """The methods that have not failed so far."""

    methods: dict[str, Method]
    unsuited: Callable[[str, str], None] | None
    """Is told those that have, with the reason; None where that is an error."""
    reasons: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def or_left_out(self, name: str) -> Iterator[None]:
        """Go on without a method that does not suit the model, if that is wanted."""
        try:
            yield
        except UnsuitedError as error:
            if self.unsuited is None:
                raise
            del self.methods[name]
            self.reasons[name] = str(error)
            self.unsuited(name, str(error))

    def has(self, point: Point) -> bool:
        """Whether the point is of the whole model as it is, or of a method that is left."""
        return point.method == ALL or point.method.removeprefix(CONTROL) in self.methods


def trained(methods: Mapping[str, Method]) -> dict[str, Tuning]:
    """How the weights are trained for a point, by the methods that train them."""
    tunings = {name: method.tuning for name, method in methods.items()}
    return {name: each for name, each in tunings.items() if each and each.trained != "gates"}


def _chosen(trial: Trial, methods: Mapping[str, Method], point: Point) -> Choice:
    """What a method keeps, with a folder of its own for its state."""
    setting = trial.setting
    if point.method == ALL:
        heads = setting.units.heads
        return Choice(Plan.keeping(heads, heads), setting.loaded)
    if point.method.startswith(CONTROL):
        return _control(setting, trained(methods), point)
    own = None if setting.state is None else setting.state / f"{point.method}-{point.seed}"
    others = len(setting.units.heads) - len(setting.units.alone().heads)
    return methods[point.method].choose(
        replace(setting, seed=point.seed, state=own), point.keep + others
    )


def _control(setting: Setting, tunings: Mapping[str, Tuning], point: Point) -> Choice:
    """All heads, trained as a method trains; methods that train alike share one training."""
    wanted = tunings[point.method.removeprefix(CONTROL)].untaught()
    first = next(name for name, tuning in tunings.items() if tuning.untaught() == wanted)
    tuned = finetune(
        setting.loaded, setting.train, wanted, seed=point.seed,
        state=setting.state and setting.state / f"control-{first}",
        tell=setting.telling("control"),
    )  # fmt: skip
    heads = setting.units.heads
    return Choice(Plan.keeping(heads, heads), tuned.loaded)
