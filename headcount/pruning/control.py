"""Control: the dense model, trained for as many updates as the pruned one, on the same data.

It separates the effect of training from that of pruning. Every training of the pruned model has a
counterpart with the same batches, optimizer and learning rate, in the same order. The counterpart
of a recovery is kept only if it lowers the loss on the development set, like the recovery itself.
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
    """The dense model after its trainings."""

    loaded: Loaded
    trainings: tuple[dict[str, Any], ...]
    """Settings of each training, whether the pruned model was `taught` in its counterpart, and
    whether its weights were `kept`."""


def control(stages: Stages, method: Method, setting: Setting, dev: Task) -> Control | None:
    """Train the dense model as the pruned one was; None if no training changed any weights."""
    trainings = {"choice": method.tuning, "recovery": stages.recovery}
    wanted = {name: each for name, each in trainings.items() if each and each.trained != "gates"}
    if not stages.control or not wanted:
        return None
    loaded, done = setting.loaded, []
    for name, given in wanted.items():
        # No teacher: the control measures training on the data, and would start as its own teacher.
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
