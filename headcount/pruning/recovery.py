"""Recovery: a pruned model is trained on, and may learn from the model that had all its heads.

Also training from scratch with the heads that are left, which asks whether pruning found only heads
or weights too.

References: Analyzing Multi-Head Self-Attention (Voita et al., 2019), section 5 (from scratch),
https://arxiv.org/abs/1905.09418; Hinton et al. (2015): see `headcount.training.answers`
"""

from dataclasses import replace
from pathlib import Path

from transformers import PreTrainedModel

from headcount.gates import Fixed
from headcount.models.load import Loaded
from headcount.models.random_copy import random_copy
from headcount.pruning.gain import Mended, pruned_loss
from headcount.pruning.method import Progress
from headcount.pruning.plan import Plan
from headcount.tasks import Task
from headcount.training.finetune import finetune
from headcount.training.telling import Moment
from headcount.training.tuning import Tuning


def recover(
    loaded: Loaded,
    plan: Plan,
    train: Task,
    tuning: Tuning,
    teacher: PreTrainedModel | None = None,
    dev: Task | None = None,
    seed: int = 0,
    state: Path | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> Mended:
    """Train a copy of a model with the heads that are left.

    Args:
        loaded: the model with all its heads, whose weights may be mended already; or, with a plan
            that keeps all of its heads, a compact model.
        plan: which stay.
        train: what is trained on.
        tuning: how; `distilled` is the share of the loss that is distance from the teacher.
        teacher: the model that had all its heads.
        dev: data that the gain is measured on; `train` if None.
        seed: of batches and dropout.
        state: folder of the checkpoints; an interrupted recovery goes on there.
        progress: is told how far it is.
    """

    def tell(moment: Moment) -> None:
        progress("recovery", moment.step, moment.steps)

    gates = Fixed(plan.gates(loaded.heads))
    about = {"plan": plan.sha256}
    tuned = finetune(loaded, train, tuning, gates, teacher, seed, state, about, tell)
    judged = dev or train
    before, after = (
        pruned_loss(each, loaded.anatomy, plan, judged)
        for each in (loaded.model, tuned.loaded.model)
    )
    return Mended(tuned.loaded, before, after, {"recovery": {"history": tuned.history}})


def from_scratch(
    loaded: Loaded,
    plan: Plan,
    train: Task,
    tuning: Tuning,
    dev: Task | None = None,
    seed: int = 0,
    state: Path | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> Mended:
    """Train a model of the same architecture with new weights and only the heads that are left."""
    fresh = replace(loaded, model=random_copy(loaded.model, seed))
    return recover(fresh, plan, train, tuning, None, dev, seed, state, progress)
