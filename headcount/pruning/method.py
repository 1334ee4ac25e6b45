"""Method: a way to choose the heads to keep, under an exact budget.

Every method has its own file. Methods that never train give a ranking, which is cut at any budget.
Methods that learn their choice train for each budget.
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
"""Function called with a stage's name, how much is done, and the total."""


@final
@dataclass(frozen=True, eq=False)
class Setting:
    """What a method has to choose heads with."""

    loaded: Loaded
    train: Task
    """Training data; some of its examples are used to score heads."""
    units: Units
    """What can be pruned: single heads or entire groups; and which heads must be kept."""
    seed: int = 0
    max_tokens: int = 4096
    state: Path | None = None
    """Folder for intermediate state, from which an interrupted choice resumes."""
    progress: Progress = lambda stage, done, total: None
    calibration: int = 2000
    """Number of examples drawn from `train`, or all if it has fewer, for steps without training:
    scores of heads, folding, rescaling."""

    @cached_property
    def sample(self) -> Task:
        """The examples for steps without training."""
        return drawn(self.train, self.calibration, self.seed)

    def telling(self, stage: str) -> Tell:
        """A callback that reports the progress of a training as a stage."""
        return lambda moment: self.progress(stage, moment.step, moment.steps)


@final
@dataclass(frozen=True, eq=False)
class Choice:
    """The heads that a method chose."""

    plan: Plan
    loaded: Loaded
    """The model to prune by the plan: the given one, or a copy whose weights trained with gates."""
    record: Mapping[str, Any] = field(default_factory=dict)
    """How the choice was made: scores, losses, coefficients."""


class Method(ABC):
    """A way to choose the heads to keep; heads with higher scores are kept."""

    name: str
    """Name of the method, as given to `--method`."""
    tuning: Tuning | None = None
    """Settings of the training, for methods that train."""

    @abstractmethod
    def choose(self, setting: Setting, keep: Keep) -> Choice:
        """Choose exactly the budget's number of heads to keep, in all or at each site named.

        Raises:
            InputError: for a budget that the units can't meet; the error names the nearest.
        """


def refuse_tunings(setting: Setting, method: Method, recovery: Tuning | None = None) -> None:
    """Check that a model can be trained as a method and a recovery require.

    Raises:
        InputError: if it can't.
    """
    if method.tuning is not None:
        refuse_tuning(setting.loaded, setting.train, method.tuning, gates_learn=True)
    if recovery is not None:
        refuse_tuning(setting.loaded, setting.train, recovery)


class Ranking(ABC):
    """A method that needs no training: one order serves every budget for all heads together."""

    name: str
    uses_data: ClassVar[bool] = True
    """Whether heads are scored on examples."""

    @abstractmethod
    def order(self, setting: Setting, keep: Keep | None = None) -> Order:
        """The heads that can be pruned, in the order of pruning.

        Args:
            setting: which heads can be pruned, and the data to choose with.
            keep: the budget, or None. If sites have budgets of their own, the order may depend on
                it; beyond the budget, the order need not be right.
        """
