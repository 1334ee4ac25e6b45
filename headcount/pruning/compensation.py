"""Compensation: what is done for a model whose heads are pruned, before it is cut.

Stages: steps after the choice of heads, each with its effect on the loss.

Ways: folding, and rescaling by head, by dimension or with a new map (`reconstruction.py`). They
race on the development set. All are measured on an eighth of its examples, the better half of them
on as many again, and so on; the last one on all of them.

Reference: successive halving, Non-stochastic Best Arm Identification and Hyperparameter
Optimization (Jamieson & Talwalkar, 2016), https://arxiv.org/abs/1502.07943

Recovery: a pruned model is fine-tuned, and may learn from the dense model as its teacher.

Reference: Hinton et al. (2015): see `headcount.training.distillation`

Control: the dense model is trained as the pruned one was.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from typing import final, get_args

import numpy as np

from headcount.compaction import FeedForward, restorable, restored
from headcount.core import InputError, Kept, LayerId, ModelError, Plan, Steps, release_memory
from headcount.gates import Fixed
from headcount.models import Loaded, revision
from headcount.pruning.before_after import evaluate_gated
from headcount.pruning.context import PruningContext
from headcount.pruning.methods.method import Method, Selection
from headcount.pruning.reconstruction import OutputMoments, Per, fold, output_moments, rescale
from headcount.results import (
    Calibration,
    ControlTraining,
    RecoveryRecord,
    StageResult,
    StagesRecord,
)
from headcount.tasks import Evaluation, Task, evaluate
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
    if smaller is None and plan.neurons:
        raise ModelError(
            f"Expected a model whose trained weights go back into the dense one, to train it "
            f"without neurons, got a {type(loaded.model).__name__}. Leave --recover out."
        )
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
    release_memory()
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
    models = (done.loaded, tuned.loaded)
    before, after = (_evaluated(each, selection, context, dev).loss for each in models)
    result = StageResult("recovery", before, after, after < before)
    facts = replace(done.facts, recovery=RecoveryRecord(tuple(tuned.history)))
    loaded = tuned.loaded if result.kept else done.loaded
    return CompensatedModel(loaded, (*done.results, result), facts)


def _evaluated(
    compensated: Loaded, selection: Selection, context: PruningContext, dev: Task
) -> Evaluation:
    """A copy of the model in which heads were chosen, evaluated with the same heads gated."""
    return evaluate_gated(
        compensated,
        selection.plan,
        context.watched(dev, "gated model on dev"),
        max_tokens=context.max_tokens,
        texts=False,
        anatomy=selection.loaded.anatomy,
    )


def _made_up(
    selection: Selection, stages: Compensation, context: PruningContext, dev: Task
) -> CompensatedModel:
    """Fold, rescale, or both: whichever wins the race, if it lowers the loss at all.

    Each loss is kept as soon as it is known, so that a resumed run measures none again.
    """
    if not (stages.fold or stages.rescale):
        return CompensatedModel(selection.loaded)
    loaded, plan, max_tokens = selection.loaded, selection.plan, context.max_tokens
    sample, losses = context.scored("outputs of heads"), _losses(selection, context, dev)
    fed = context.feed_forwards
    sums = output_moments(loaded.model, sample, loaded.anatomy, max_tokens, fed)
    ways, parts = _ways(loaded, plan, sums, stages, fed), rounds(dev, context.seed)

    def measure(name: str, number: int) -> Sums:
        unit = name if len(parts) == 1 else f"{name}, part {number + 1} of {len(parts)}"
        made = ways.get(name, lambda: loaded)
        return losses.once(unit, lambda: _sums(made(), selection, context, parts[number]))

    results = race([*ways], parts, measure, partial(context.progress, _COMPENSATING))
    kept = next((ways[each.stage]() for each in results if each.kept), loaded)
    calibration = Calibration(
        data=context.train.sha256,
        examples=context.sample.num_examples,
        queries=max((each.queries for each in sums.values()), default=0),
    )
    return CompensatedModel(kept, results, StagesRecord(calibration))


_BEFORE, _COMPENSATING = "no compensation", "folding and rescaling"

Sums = tuple[float, float]
"""Summed loss of some examples, and the number of its terms."""

RACED = 64
"""Fewest examples of a development set on which ways race; with fewer, each is measured on all."""


def rounds(dev: Task, seed: int = 0) -> list[Task]:
    """Parts of a development set for the rounds of a race, each as large as all before it.

    Args:
        dev: the development set, which is the only part if it is small or can't be divided.
        seed: seed of the draw.
    """
    ends = _ends(dev)
    if not ends:
        return [dev]
    order_N = np.random.default_rng(seed).permutation(dev.num_examples)
    return [dev.some(np.sort(each)) for each in np.split(order_N, ends)]


def _ends(dev: Task) -> list[int]:
    """Where all rounds but the last end, in examples; none if the set is not divided."""
    if dev.num_examples < RACED or not dev.by_example:
        return []
    return [dev.num_examples // share for share in (8, 4, 2)]


def _sizes(ways: int, num_rounds: int) -> list[int]:
    """How many ways each round measures."""
    return [math.ceil(ways / 2**number) for number in range(num_rounds)]


def race_passes(stages: Compensation, dev: Task) -> float:
    """How often a race runs the whole development set, no compensation included."""
    ends = [0, *_ends(dev), dev.num_examples]
    parts = np.diff(ends) / dev.num_examples
    ways = stages.fold + len(get_args(Per)) * stages.rescale * (1 + stages.fold)
    return float(sum((np.array(_sizes(ways, len(parts))) + 1) * parts))


def race(
    names: Sequence[str],
    parts: Sequence[Task],
    measure: Callable[[str, int], Sums],
    steps: Steps,
) -> tuple[StageResult, ...]:
    """Compare ways by successive halving: after each round but the last, the better half goes on.

    Args:
        names: names of the ways.
        parts: the examples of each round.
        measure: measures a way, or no compensation, on one part.
        steps: called with the number of measurements so far, and of all.

    Returns:
        Each way with its loss, and that of no compensation, on the examples of all its rounds. The
        best of the last round is kept if its loss is lower.
    """
    sizes = _sizes(len(names), len(parts))
    total, done, examples = sum(sizes) + len(parts), 0, 0
    sums_of: dict[str, Sums] = dict.fromkeys((_BEFORE, *names), (0.0, 0.0))
    racing, found = [*names], dict[str, StageResult]()
    for number, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        racing = sorted(racing, key=lambda name: found[name].after)[:size] if found else racing
        examples += part.num_examples
        for name in (_BEFORE, *racing):
            steps(done, total)
            loss, count = measure(name, number)
            sums_of[name] = (sums_of[name][0] + loss, sums_of[name][1] + count)
            done += 1
        means = {name: loss / count for name, (loss, count) in sums_of.items()}
        is_all = number + 1 == len(parts)
        for name in racing:
            seen = None if is_all else examples
            found[name] = StageResult(name, means[_BEFORE], means[name], False, seen)
    steps(total, total)
    best = min((found[name] for name in racing), key=lambda each: each.after)
    if best.after < best.before:
        found[best.stage] = replace(best, kept=True)
    return tuple(found[name] for name in names)


def _losses(selection: Selection, context: PruningContext, dev: Task) -> Kept[Sums]:
    """The losses on the development set that are known, by the way to compensate."""
    key = (
        f"model:{revision(selection.loaded.model)}|plan:{selection.plan.sha256}"
        f"|data:{context.sample.sha256}|dev:{dev.sha256}|seed:{context.seed}"
    )
    file = context.state and context.state / "compensation.json"
    return Kept(file, key, f"the losses of the stage {_COMPENSATING}", Sums)


def _sums(compensated: Loaded, selection: Selection, context: PruningContext, part: Task) -> Sums:
    """Summed loss of a copy of the model in which heads were chosen, with the same heads gated.

    It is infinite if compensated weights are too large for the model's format.
    """
    try:
        found = _evaluated(compensated, selection, context, part)
    except ModelError:
        if compensated is selection.loaded:
            raise
        return math.inf, 1.0
    return float(found.loss_N.sum()), float(found.count_N.sum())


def _ways(
    loaded: Loaded,
    plan: Plan,
    sums: Mapping[LayerId, OutputMoments],
    stages: Compensation,
    fed: Sequence[FeedForward],
) -> dict[str, Callable[[], Loaded]]:
    """The ways to compensate without training, by name, each starting from the chosen weights."""
    ways: dict[str, Callable[[], Loaded]] = {}
    if stages.fold:
        ways["folding"] = partial(fold, loaded, plan, sums, fed)
    for per, folds in product(get_args(Per) if stages.rescale else (), (False, True)):
        if stages.fold or not folds:
            name = f"rescaling by {per}" + (", folding" if folds else "")
            ways[name] = partial(rescale, loaded, plan, sums, per, folds, fed)
    return ways


def control(
    stages: Compensation, method: Method, context: PruningContext, dev: Task
) -> tuple[Loaded, tuple[ControlTraining, ...]] | None:
    """Train the dense model as the pruned one was; None if no training changed any weights.

    Returns:
        The dense model after its trainings, and these in order.
    """
    trainings = {"choice": method.tuning, "recovery": stages.recovery}
    wanted = {name: each for name, each in trainings.items() if each and each.trained != "gates"}
    if not stages.control or not wanted:
        return None
    loaded, done = context.loaded, []
    for name, given in wanted.items():
        tuning = given.of_control(stages.control_taught)
        state = context.state and context.state / f"control-{name}"
        context.progress("control", 0, tuning.updates)
        run = context.training_run("control", state)
        teacher = context.loaded.model if tuning.is_taught else None
        tuned = finetune(loaded, context.train, tuning, teacher=teacher, run=run).loaded
        is_kept = name == "choice" or _loss(tuned, dev, context) < _loss(loaded, dev, context)
        loaded = tuned if is_kept else loaded
        done.append(ControlTraining(settings=asdict(tuning), taught=given.is_taught, kept=is_kept))
    return loaded, tuple(done)


def _loss(loaded: Loaded, dev: Task, context: PruningContext) -> float:
    return evaluate(loaded.model, context.watched(dev, "control on dev"), context.max_tokens).loss
