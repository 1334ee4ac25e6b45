"""Control: the whole model trained as long as the pruned one was, on the same data.

What training alone does is no merit of pruning. Every training has a counterpart, one after the
other, with its own batches, optimizer and learning rate; that of a recovery is kept where it lowers
the loss on the development set, as the recovery itself is.
"""

from dataclasses import asdict, dataclass
from typing import Any, final

from headcount.models.load import Loaded
from headcount.pruning.method import Method, Setting
from headcount.pruning.stages import Stages
from headcount.tasks import Task, evaluate
from headcount.training.finetune import finetune


@final
@dataclass(frozen=True, eq=False)
class Control:
    """The whole model after its trainings."""

    loaded: Loaded
    trainings: tuple[dict[str, Any], ...]
    """Fields of each, whether the pruned model was `taught` in it, and whether its weights were
    `kept`."""


def control(stages: Stages, method: Method, setting: Setting, dev: Task) -> Control | None:
    """Train the whole model as the pruned one was; None where only gates were, if any."""
    trainings = {"choice": method.tuning, "recovery": stages.recovery}
    wanted = {name: each for name, each in trainings.items() if each and each.trained != "gates"}
    if not stages.control or not wanted:
        return None
    loaded, done = setting.loaded, []
    for name, given in wanted.items():
        # What is asked is what training on the data does, and at first it would be its own teacher.
        tuning = given.untaught()
        state = setting.state and setting.state / f"control-{name}"
        tuned = finetune(
            loaded, setting.train, tuning, seed=setting.seed, state=state,
            tell=setting.telling("control"),
        ).loaded  # fmt: skip
        is_kept = name == "choice" or _loss(tuned, dev, setting) < _loss(loaded, dev, setting)
        loaded = tuned if is_kept else loaded
        done.append(asdict(tuning) | {"taught": given.is_taught, "kept": is_kept})
    return Control(loaded, tuple(done))


def _loss(loaded: Loaded, dev: Task, setting: Setting) -> float:
    return evaluate(loaded.model, dev, setting.max_tokens).loss
