"""Stages: what follows the choice of heads, each with what it gained."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any, final, get_args

from headcount.errors import ModelError
from headcount.heads import Place
from headcount.models.load import Loaded
from headcount.pruning.folding import fold
from headcount.pruning.gated import evaluate_gated
from headcount.pruning.method import Choice, Setting
from headcount.pruning.moments import Moments, moments
from headcount.pruning.plan import Plan
from headcount.pruning.recovery import recover
from headcount.pruning.rescaling import Per, rescale
from headcount.signature import revision
from headcount.tasks import Task
from headcount.training.tuning import Tuning


@final
@dataclass(frozen=True)
class Stages:
    """Which stages there are."""

    fold: bool = True
    """The mean output of the heads that go moves into the bias, where that lowers the loss."""
    rescale: bool = True
    """The heads that stay grow to make up for those that go, where that lowers the loss."""
    recovery: Tuning | None = None
    """Training with the heads that are left, kept where it lowers the loss; None for none."""
    control: bool = True
    """Where anything is trained, train the whole model as long on the same data."""


@final
@dataclass(frozen=True, eq=False)
class Gain:
    """What one stage, or one way of making up, does to the loss on the development set."""

    stage: str
    before: float
    after: float
    kept: bool = True
    """Whether the model has it."""


@final
@dataclass(frozen=True, eq=False)
class Finished:
    """The model after all stages, with all its heads still."""

    loaded: Loaded
    gains: tuple[Gain, ...] = ()
    record: dict[str, Any] = field(default_factory=dict)


def run_stages(choice: Choice, stages: Stages, setting: Setting, dev: Task) -> Finished:
    """Fold, rescale and recover, as far as asked for."""
    done = _made_up(choice, stages, setting, dev)
    if stages.recovery is None:
        return done
    state = setting.state and setting.state / "recovery"
    # Least squares come out a little different in batches of another size.
    mended = next((gain.stage for gain in done.gains if gain.kept), "nothing")
    made = {"model": revision(choice.loaded.model), "mended by": mended}
    if mended != "nothing":
        made["mended on"] = setting.sample.sha256
    tuned = recover(replace(setting, state=state), done.loaded, choice.plan, stages.recovery, made)
    before, after = (_loss(each, choice, setting, dev) for each in (done.loaded, tuned.loaded))
    gain = Gain("recovery", before, after, after < before)
    record = done.record | {"recovery": {"history": tuned.history}}
    return Finished(tuned.loaded if gain.kept else done.loaded, (*done.gains, gain), record)


def _loss(mended: Loaded, choice: Choice, setting: Setting, dev: Task) -> float:
    """Of a copy of the model that heads were chosen in, with the same heads gated."""
    anatomy = choice.loaded.anatomy
    return evaluate_gated(mended, choice.plan, dev, setting.max_tokens, False, anatomy).loss


def _made_up(choice: Choice, stages: Stages, setting: Setting, dev: Task) -> Finished:
    """Fold, rescale, or both at once: what lowers the loss on the development set most, if any."""
    if not (stages.fold or stages.rescale):
        return Finished(choice.loaded)
    loaded, plan, max_tokens = choice.loaded, choice.plan, setting.max_tokens
    sums = moments(loaded.model, setting.sample, loaded.anatomy, max_tokens)
    best, before = "", _loss(loaded, choice, setting, dev)
    lowest, kept, after = before, loaded, {}
    ways = _ways(loaded, plan, sums, stages)
    for number, (name, way) in enumerate(ways.items()):
        setting.progress("folding and rescaling", number, len(ways))
        mended = way()
        try:
            after[name] = _loss(mended, choice, setting, dev)
        except ModelError:  # numbers too large for the model's format: not this way
            after[name] = math.inf
        if after[name] < lowest:
            lowest, kept, best = after[name], mended, name
    setting.progress("folding and rescaling", len(ways), len(ways))
    gains = tuple(Gain(name, before, each, name == best) for name, each in after.items())
    calibration = {
        "data": setting.train.sha256,
        "examples": setting.sample.num_examples,
        "queries": max((each.queries for each in sums.values()), default=0),
    }
    return Finished(kept, gains, {"calibration": calibration})


def _ways(
    loaded: Loaded, plan: Plan, sums: Mapping[Place, Moments], stages: Stages
) -> dict[str, Callable[[], Loaded]]:
    """What can be done without training, by name, each from the weights as they were chosen."""
    ways: dict[str, Callable[[], Loaded]] = {}
    if stages.fold:
        ways["folding"] = partial(fold, loaded, plan, sums)
    for per, folds in product(get_args(Per) if stages.rescale else (), (False, True)):
        if stages.fold or not folds:
            name = f"rescaling by {per}" + (", folding" if folds else "")
            ways[name] = partial(rescale, loaded, plan, sums, per, folds)
    return ways
