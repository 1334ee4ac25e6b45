"""Recovery: a pruned model is fine-tuned, and may learn from the dense model as its teacher.

This module also trains the kept heads from scratch, which shows whether pruning found only good
heads or good weights too.

References: Analyzing Multi-Head Self-Attention (Voita et al., 2019), section 6 (from scratch),
https://arxiv.org/abs/1905.09418; Hinton et al. (2015): see `headcount.training.optim.soft_targets`
"""

from collections.abc import Mapping
from dataclasses import replace

from headcount.compaction import restorable, restored
from headcount.core import InputError, Plan
from headcount.gates import Fixed
from headcount.models import Loaded, random_copy
from headcount.pruning.context import PruningContext
from headcount.training import FinetuneConfig, FineTuned, check_finetuning, finetune


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


def from_scratch(context: PruningContext, plan: Plan, tuning: FinetuneConfig) -> FineTuned:
    """Train a model of the same architecture with new weights and only the kept heads.

    Raises:
        InputError: if the training is impossible, or would not be from scratch.
    """
    check_not_from_scratch(context, tuning)
    loaded = context.loaded
    fresh = replace(loaded, model=random_copy(loaded.model, context.seed))
    return recover(context, fresh, plan, tuning)


def check_not_from_scratch(context: PruningContext, tuning: FinetuneConfig) -> None:
    """Check that new weights can be trained with these settings.

    Raises:
        InputError: for a teacher, fixed weights, or settings that the task can't be trained with.
    """
    if tuning.is_taught:
        raise InputError(
            "Training from scratch has no teacher. Expected distilled and layerwise of 0, got "
            f"{tuning.distilled} and {tuning.layerwise}. Set both to 0."
        )
    if tuning.trained != "all":
        raise InputError(
            "Training from scratch trains all weights. Expected trained=all, got "
            f"{tuning.trained}. Set it to all."
        )
    check_finetuning(context.loaded, context.train, tuning)
