"""Stages: steps after the choice of heads, each with its effect on the loss.

Recovery: a pruned model is fine-tuned, and may learn from the dense model as its teacher.

Reference: Hinton et al. (2015): see `headcount.training.optim.soft_targets`
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import final, get_args

from headcount.compaction import restorable, restored
from headcount.core import InputError, LayerId, ModelError, Plan
from headcount.gates import Fixed
from headcount.models import Loaded, revision
from headcount.pruning.before_after import evaluate_gated
from headcount.pruning.compensation.folding import OutputMoments, fold, output_moments
from headcount.pruning.compensation.rescaling import Per, rescale
from headcount.pruning.context import PruningContext
from headcount.pruning.methods.method import Selection
from headcount.results import Calibration, RecoveryRecord, StageResult, StagesRecord
from headcount.tasks import Task
from headcount.training import FinetuneConfig, FineTuned, finetune


def recover(
    context: PruningContext,
    loaded: Loaded,
    plan: Plan,
    tuning: FinetuneConfig,
    made: Mapping[str, str] | None = None,
) -> FineTuned:
    """Train a copy of a model with the kept heads, as a compact model if possible.

    Args:
        context: data, seed, and the dense model, which may be the teacher.
        loaded: the model with all its heads, whose weights may already be folded or rescaled; or,
            with a plan that keeps all of its heads, a compact model.
        plan: which heads are kept.
        tuning: settings of the training and its distillation.
        made: how `loaded` was made, if its weights are not bit-identical each time. A resumed
            recovery must have this in common instead of the weights.
    """
    teacher = context.loaded.model if tuning.is_taught else None
    context.progress("recovery", 0, tuning.updates)
    smaller = restorable(loaded, plan)
    gates = Fixed(plan.gates(loaded.heads)) if smaller is None else None
    about = {"plan": plan.sha256, "form": "compact" if gates is None else "gated"}
    tuned = finetune(
        smaller or loaded,
        context.train,
        tuning,
        gates=gates,
        teacher=teacher,
        run=context.training_run("recovery", context.state, about | dict(made or {})),
    )
    if smaller is None:
        return tuned
    context.progress("weights put back", 0, 1)
    whole = restored(loaded, plan, tuned.loaded)
    context.progress("weights put back", 1, 1)
    return replace(tuned, loaded=whole)


@final
@dataclass(frozen=True)
class Compensation:
    """Stages that follow the choice of heads in `prune`, and whether a control is trained.

    >>> Compensation(recovery=FinetuneConfig(updates=400, distilled=0.5)).fold
    True
    """

    fold: bool = True
    """Whether to fold the pruned heads' mean output into the bias, if that lowers the loss."""
    rescale: bool = True
    """Whether to rescale the kept heads to compensate, if that lowers the loss."""
    recovery: FinetuneConfig | None = None
    """Training with the kept heads, used if it lowers the loss; None for no training."""
    control: bool = True
    """Whether to train the dense model for as many updates on the same data, if any are trained."""
    control_taught: bool = False
    """Whether that control has the pruned model's teacher: the dense model before its training.
    Without it the control measures training on the data, and not what a teacher adds."""

    def check_control(self, choice: FinetuneConfig | None) -> None:
        """Check that a control that is taught has something to be taught in.

        Args:
            choice: the training that chooses heads, if any.

        Raises:
            InputError: if there is no control, or no training of weights has a teacher.
        """
        trainings = (choice, self.recovery)
        is_taught = any(each and each.is_taught and each.trained != "gates" for each in trainings)
        if self.control_taught and not (self.control and is_taught):
            raise InputError(
                "Expected a control and a training with a teacher, whose teacher the control "
                "would have (--control-taught), got none. Set distilled or layerwise for the "
                "training, or leave --control-taught out."
            )


@final
@dataclass(frozen=True, eq=False)
class CompensatedModel:
    """The model after all stages, still with all its heads."""

    loaded: Loaded
    """The model, with the weights of all stages that were kept."""
    results: tuple[StageResult, ...] = ()
    """Every stage, or way to compensate, that was tried."""
    facts: StagesRecord = StagesRecord()
    """The data and trainings of these stages."""


def run_stages(
    selection: Selection, stages: Compensation, context: PruningContext, dev: Task
) -> CompensatedModel:
    """Run the requested stages: folding, rescaling and recovery."""
    done = _made_up(selection, stages, context, dev)
    if stages.recovery is None:
        return done
    state = context.state and context.state / "recovery"
    # Least squares give slightly different weights with other batch sizes.
    compensated = next((each.stage for each in done.results if each.kept), "nothing")
    made = {"model": revision(selection.loaded.model), "compensated by": compensated}
    if compensated != "nothing":
        made["compensated on"] = context.sample.sha256
    tuned = recover(
        replace(context, state=state), done.loaded, selection.plan, stages.recovery, made
    )
    before, after = (_loss(each, selection, context, dev) for each in (done.loaded, tuned.loaded))
    result = StageResult("recovery", before, after, after < before)
    facts = replace(done.facts, recovery=RecoveryRecord(tuple(tuned.history)))
    loaded = tuned.loaded if result.kept else done.loaded
    return CompensatedModel(loaded, (*done.results, result), facts)


def _loss(compensated: Loaded, selection: Selection, context: PruningContext, dev: Task) -> float:
    """Loss of a copy of the model in which heads were chosen, with the same heads gated."""
    anatomy = selection.loaded.anatomy
    return evaluate_gated(
        compensated,
        selection.plan,
        context.watched(dev, "gated model on dev"),
        max_tokens=context.max_tokens,
        texts=False,
        anatomy=anatomy,
    ).loss


def _made_up(
    selection: Selection, stages: Compensation, context: PruningContext, dev: Task
) -> CompensatedModel:
    """Fold, rescale, or both: whichever lowers the loss on the development set most, if any."""
    if not (stages.fold or stages.rescale):
        return CompensatedModel(selection.loaded)
    loaded, plan, max_tokens = selection.loaded, selection.plan, context.max_tokens
    sample = context.scored("outputs of heads")
    sums = output_moments(loaded.model, sample, loaded.anatomy, max_tokens)
    best, before = "", _loss(loaded, selection, context, dev)
    lowest, kept, after = before, loaded, {}
    ways = _ways(loaded, plan, sums, stages)
    for number, (name, way) in enumerate(ways.items()):
        context.progress("folding and rescaling", number, len(ways))
        compensated = way()
        try:
            after[name] = _loss(compensated, selection, context, dev)
        except ModelError:  # numbers too large for the model's format: reject this way
            after[name] = math.inf
        if after[name] < lowest:
            lowest, kept, best = after[name], compensated, name
    context.progress("folding and rescaling", len(ways), len(ways))
    results = tuple(StageResult(name, before, each, name == best) for name, each in after.items())
    calibration = Calibration(
        data=context.train.sha256,
        examples=context.sample.num_examples,
        queries=max((each.queries for each in sums.values()), default=0),
    )
    return CompensatedModel(kept, results, StagesRecord(calibration))


def _ways(
    loaded: Loaded, plan: Plan, sums: Mapping[LayerId, OutputMoments], stages: Compensation
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
