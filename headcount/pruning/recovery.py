"""Recovery: a pruned model is trained on, and may learn from the model that had all its heads.

Also training from scratch with the heads that are left, which asks whether pruning found only heads
or weights too.

References: Analyzing Multi-Head Self-Attention (Voita et al., 2019), section 6 (from scratch),
https://arxiv.org/abs/1905.09418; Hinton et al. (2015): see `headcount.training.soft_targets`
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headcount.compaction import restorable, restored
from headcount.errors import InputError
from headcount.gates import Fixed
from headcount.models.load import Loaded
from headcount.models.random_copy import random_copy
from headcount.pruning.method import Setting
from headcount.pruning.plan import Plan
from headcount.training.finetune import FineTuned, finetune, refuse_tuning
from headcount.training.tuning import Tuning


def recover(
    setting: Setting,
    loaded: Loaded,
    plan: Plan,
    tuning: Tuning,
    made: Mapping[str, Any] | None = None,
) -> FineTuned:
    """Train a copy of a model with the heads that are left, as a compact model where that can be.

    Args:
        setting: data, seed, and the model that had all its heads, which may teach.
        loaded: the model with all its heads, whose weights may be mended already; or, with a plan
            that keeps all of its heads, a compact model.
        plan: which stay.
        tuning: how, and what of the teacher is distilled.
        made: how `loaded` came about, where its weights are not the same to the last bit each time:
            a recovery that is resumed must have this in common instead of them.
    """
    teacher = setting.loaded.model if tuning.is_taught else None
    smaller = restorable(loaded, plan)
    gates = Fixed(plan.gates(loaded.heads)) if smaller is None else None
    about = {"plan": plan.sha256, "form": "compact" if gates is None else "gated"}
    tuned = finetune(
        smaller or loaded, setting.train, tuning, gates, teacher, setting.seed, setting.state,
        about | dict(made or {}), setting.telling("recovery"),
    )  # fmt: skip
    return tuned if smaller is None else replace(tuned, loaded=restored(loaded, plan, tuned.loaded))


def from_scratch(setting: Setting, plan: Plan, tuning: Tuning) -> FineTuned:
    """Train a model of the same architecture with new weights and only the heads that are left.

    Raises:
        InputError: for a training that can't be, or would not be from scratch.
    """
    refuse_from_scratch(setting, tuning)
    loaded = setting.loaded
    fresh = replace(loaded, model=random_copy(loaded.model, setting.seed))
    return recover(setting, fresh, plan, tuning)


def refuse_from_scratch(setting: Setting, tuning: Tuning) -> None:
    """See that new weights can be trained so.

    Raises:
        InputError: for a teacher, for fixed weights, or for what no training of the task takes.
    """
    if tuning.is_taught:
        raise InputError("training from scratch has no teacher: set distilled and layerwise to 0")
    if tuning.trained != "all":
        raise InputError("training from scratch trains all weights: set trained to all")
    refuse_tuning(setting.loaded, setting.train, tuning)
