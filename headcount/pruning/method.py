"""Method: a way to choose the heads that stay, under an exact budget.

One file a method. Those that never train give a ranking, from which any budget is cut; those that
learn their choice are asked for each budget anew.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, final

from headcount.models.load import Loaded
from headcount.pruning.budget import Keep, Units
from headcount.pruning.order import Order
from headcount.pruning.plan import Plan
from headcount.tasks import Task, drawn
from headcount.training.finetune import refuse_tuning
from headcount.training.telling import Tell
from headcount.training.tuning import Tuning

Progress = Callable[[str, int, int], None]
"""Told a stage, what is done, and of how much."""


@final
@dataclass(frozen=True, eq=False)
class Setting:
    """What a method has to choose with."""

    loaded: Loaded
    train: Task
    """What is trained on, and some of it scored on."""
    units: Units
    """What can go: heads one by one, or whole groups; and what must stay."""
    seed: int = 0
    max_tokens: int = 4096
    state: Path | None = None
    """Folder for what has been done so far: an interrupted choice goes on there."""
    progress: Progress = lambda stage, done, total: None
    calibration: int = 2000
    """Examples of `train`, drawn, for what needs no training: scores of heads, folding, rescaling;
    all where there are no more."""

    @cached_property
    def sample(self) -> Task:
        """The examples for what needs no training."""
        return drawn(self.train, self.calibration, self.seed)

    def telling(self, stage: str) -> Tell:
        """Tells the progress of a training, which is a stage."""
        return lambda moment: self.progress(stage, moment.step, moment.steps)


@final
@dataclass(frozen=True, eq=False)
class Choice:
    """What a method chose."""

    plan: Plan
    loaded: Loaded
    """The model to prune by the plan: the one given, or a copy whose weights learned with gates."""
    record: Mapping[str, Any] = field(default_factory=dict)
    """How it came to that: scores, losses, coefficients."""


class Method(ABC):
    """A way to choose the heads that stay; higher scores stay."""

    name: str
    """As `--method` takes it."""
    tuning: Tuning | None = None
    """The training that choosing takes, for methods that train."""

    @abstractmethod
    def choose(self, setting: Setting, keep: Keep) -> Choice:
        """Keep exactly so many heads in all, or at each site named.

        Raises:
            InputError: for a budget that the units can't meet; says the nearest that they can.
        """


def refuse_tunings(setting: Setting, method: Method, recovery: Tuning | None = None) -> None:
    """See that a model can be trained as a method does it, and as a recovery does.

    Raises:
        InputError: if it can't be.
    """
    if method.tuning is not None:
        refuse_tuning(setting.loaded, setting.train, method.tuning, gates_learn=True)
    if recovery is not None:
        refuse_tuning(setting.loaded, setting.train, recovery)


class Ranking(ABC):
    """A method that needs no training: one order serves every budget in all."""

    name: str
    uses_data: ClassVar[bool] = True
    """Whether heads are scored on examples."""

    @abstractmethod
    def order(self, setting: Setting, keep: Keep | None = None) -> Order:
        """Heads that may go, in the order in which they go.

        Args:
            setting: what may go, and what to choose with.
            keep: the budget, which an order may depend on where sites have budgets of their own,
                and need not be right behind; None for none.
        """
