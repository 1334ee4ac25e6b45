"""Method: a way to choose the heads to keep, under an exact budget.

Every method has its own file. Methods that never train give a ranking, which is cut at any budget.
Methods that learn their choice train for each budget.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, final

from headcount.core import Plan, Progress, options_of, silent
from headcount.models import Loaded, plan_for
from headcount.pruning.budget import Keep, Units, by_site, pruned_heads
from headcount.pruning.methods.order import Order
from headcount.pruning.options import CALIBRATION
from headcount.tasks import Task, drawn
from headcount.training import FinetuneConfig, Tell, check_finetuning


@final
@dataclass(frozen=True, eq=False)
class PruningContext:
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
    progress: Progress = silent
    calibration: int = CALIBRATION
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
class Selection:
    """The heads that a method chose."""

    plan: Plan
    loaded: Loaded
    """The model to prune by the plan: the given one, or a copy whose weights trained with gates."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """Score of every head that can be pruned, by its name; empty if heads were not scored."""
    history: tuple[Mapping[str, Any], ...] | None = None
    """Log entries of a training; None if the method trains nothing."""
    open: Mapping[str, int] | None = None
    """Number of heads whose gates training left open, at each site; None without such gates."""
    swept: Mapping[str, int] | None = None
    """Number of open heads by coefficient tried; None if no coefficient was searched."""


class Method(ABC):
    """A way to choose the heads to keep; heads with higher scores are kept."""

    name: str
    """Name of the method, as given to `--method`."""
    tuning: FinetuneConfig | None = None
    """Settings of the training, for methods that train."""

    @property
    def changed_options(self) -> list[str]:
        """The options that differ from their defaults, as the command takes them."""
        return options_of(self) if is_dataclass(self) else []

    @abstractmethod
    def choose(self, context: PruningContext, keep: Keep) -> Selection:
        """Choose exactly the budget's number of heads to keep, in all or at each site named.

        Raises:
            InputError: for a budget that the units can't meet; the error names the nearest.
        """


def check_finetunings(
    context: PruningContext, method: Method, recovery: FinetuneConfig | None = None
) -> None:
    """Check that a model can be trained as a method and a recovery require.

    Raises:
        InputError: if it can't.
    """
    if method.tuning is not None:
        check_finetuning(context.loaded, context.train, method.tuning, gates_learn=True)
    if recovery is not None:
        check_finetuning(context.loaded, context.train, recovery)


class Ranking(ABC):
    """A method that needs no training: one order serves every budget for all heads together."""

    name: str
    uses_data: ClassVar[bool] = True
    """Whether heads are scored on examples."""

    @abstractmethod
    def order(self, context: PruningContext, keep: Keep | None = None) -> Order:
        """The heads that can be pruned, in the order of pruning.

        Args:
            context: which heads can be pruned, and the data to choose with.
            keep: the budget, or None. If sites have budgets of their own, the order may depend on
                it; beyond the budget, the order need not be right.
        """


@final
@dataclass(frozen=True)
class RankingMethod(Method):
    """Cuts a ranking's order at the budget; the model's weights are not changed."""

    ranking: Ranking

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Name of the ranking."""
        return self.ranking.name

    @property
    def changed_options(self) -> list[str]:
        """The options of the ranking that differ from their defaults."""
        return options_of(self.ranking) if is_dataclass(self.ranking) else []

    def choose(self, context: PruningContext, keep: Keep) -> Selection:
        """Keep the last heads of the order; an impossible budget raises an error before ranking."""
        by_site(context.units, keep)
        order, heads = self.ranking.order(context, keep), context.units.heads
        stay = set(heads) - set(pruned_heads(order.heads, context.units, keep))
        plan = plan_for(context.loaded, stay)
        scores = {str(head): score for head, score in order.scores.items()}
        return Selection(plan, context.loaded, scores)
