"""Stages: what follows the choice of heads, each with what it gained, and the control beside it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, final

from headcount.models.load import Loaded
from headcount.pruning.folding import fold
from headcount.pruning.gain import Mended
from headcount.pruning.method import Choice, Method, Setting
from headcount.pruning.recovery import recover
from headcount.pruning.rescaling import rescale
from headcount.tasks import Task
from headcount.training.finetune import finetune
from headcount.training.telling import Moment
from headcount.training.tuning import Tuning


@final
@dataclass(frozen=True)
class Stages:
    """Which stages there are."""

    fold: bool = True
    """The mean output of the heads that go moves into the bias."""
    rescale: bool = True
    """The heads that stay grow to make up for those that go."""
    recovery: Tuning | None = None
    """Training with the heads that are left; None for none."""
    control: bool = True
    """Where anything is trained, train the whole model as long on the same data."""


@final
@dataclass(frozen=True, eq=False)
class Gain:
    """What one stage did to the loss on the development set."""

    stage: str
    before: float
    after: float


@final
@dataclass(frozen=True, eq=False)
class Finished:
    """The model after all stages, with all its heads still."""

    loaded: Loaded
    gains: tuple[Gain, ...] = ()
    record: dict[str, Any] = field(default_factory=dict)


def run_stages(choice: Choice, stages: Stages, setting: Setting, dev: Task) -> Finished:
    """Fold, rescale and recover, as far as asked for.

    A rescaling with folding starts from the weights as they were chosen, since it finds constants
    of its own; its gain is beyond that of folding alone.
    """
    done = Finished(choice.loaded)
    train, max_tokens = setting.train, setting.max_tokens
    if stages.fold:
        setting.progress("folding", 0, 1)
        done = _after(done, "folding", fold(choice.loaded, choice.plan, train, dev, max_tokens))
    if stages.rescale:
        setting.progress("rescaling", 0, 1)
        mended = rescale(choice.loaded, choice.plan, train, dev, "head", stages.fold, max_tokens)
        done = _after(done, "rescaling", mended)
    if stages.recovery is not None:
        state = setting.state and setting.state / "recovery"
        teacher = setting.loaded.model if stages.recovery.distilled else None
        mended = recover(
            done.loaded, choice.plan, train, stages.recovery, teacher, dev, setting.seed, state,
            setting.progress,
        )  # fmt: skip
        done = _after(done, "recovery", mended)
    return done


def control(stages: Stages, method: Method, setting: Setting) -> tuple[Loaded, Tuning] | None:
    """The whole model trained as long as the pruned one was; None where nothing was trained."""
    trainings = [each for each in (method.tuning, stages.recovery) if each is not None]
    if not stages.control or not trainings:
        return None
    tuning = replace(trainings[-1], updates=sum(each.updates for each in trainings), trained="all")
    state = setting.state and setting.state / "control"
    tuned = finetune(
        setting.loaded, setting.train, replace(tuning, distilled=0.0), seed=setting.seed,
        state=state, tell=_told(setting.progress, "control"),
    )  # fmt: skip
    return tuned.loaded, tuning


def _after(done: Finished, stage: str, mended: Mended) -> Finished:
    before = done.gains[-1].after if done.gains else mended.before
    gain = Gain(stage, before, mended.after)
    return Finished(mended.loaded, (*done.gains, gain), done.record | mended.record)


def _told(progress: Callable[[str, int, int], None], stage: str) -> Callable[[Moment], None]:
    return lambda moment: progress(stage, moment.step, moment.steps)
