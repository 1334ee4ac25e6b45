"""Stages: steps after the choice of heads, each with its effect on the loss."""

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
    """Which stages run."""

    fold: bool = True
    """Whether to fold the pruned heads' mean output into the bias, if that lowers the loss."""
    rescale: bool = True
    """Whether to rescale the kept heads to compensate, if that lowers the loss."""
    recovery: Tuning | None = None
    """Training with the kept heads, used if it lowers the loss; None for no training."""
    control: bool = True
    """Whether to train the dense model for as many updates on the same data, if any are trained."""


@final
@dataclass(frozen=True, eq=False)
class Gain:
    """Effect of one stage, or one way to compensate, on the loss on the development set."""

    stage: str
    before: float
    after: float
    kept: bool = True
    """Whether the final model includes it."""


@final
@dataclass(frozen=True, eq=False)
class Finished:
    """The model after all stages, still with all its heads."""

    loaded: Loaded
    gains: tuple[Gain, ...] = ()
    record: dict[str, Any] = field(default_factory=dict)


def run_stages(choice: Choice, stages: Stages, setting: Setting, dev: Task) -> Finished:
    """Run the requested stages: folding, rescaling and recovery."""
    done = _made_up(choice, stages, setting, dev)
    if stages.recovery is None:
        return done
    state = setting.state and setting.state / "recovery"
    # Least squares give slightly different weights with other batch sizes.
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
    """Loss of a copy of the model in which heads were chosen, with the same heads gated."""
    anatomy = choice.loaded.anatomy
    return evaluate_gated(mended, choice.plan, dev, setting.max_tokens, False, anatomy).loss


def _made_up(choice: Choice, stages: Stages, setting: Setting, dev: Task) -> Finished:
    """Fold, rescale, or both: whichever lowers the loss on the development set most, if any."""
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
        except ModelError:  # numbers too large for the model's format: reject this way
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
    """The ways to compensate without training, by name, each starting from the chosen weights."""
    ways: dict[str, Callable[[], Loaded]] = {}
    if stages.fold:
        ways["folding"] = partial(fold, loaded, plan, sums)
    for per, folds in product(get_args(Per) if stages.rescale else (), (False, True)):
        if stages.fold or not folds:
            name = f"rescaling by {per}" + (", folding" if folds else "")
            ways[name] = partial(rescale, loaded, plan, sums, per, folds)
    return ways
