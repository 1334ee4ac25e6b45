"""Recovery: a pruned model is fine-tuned, and may learn from the dense model as its teacher.

Reference: Hinton et al. (2015): see `headcount.training.optim.soft_targets`
"""

from collections.abc import Mapping
from dataclasses import replace

from headcount.compaction import restorable, restored
from headcount.core import Plan
from headcount.gates import Fixed
from headcount.models import Loaded
from headcount.pruning.context import PruningContext
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
