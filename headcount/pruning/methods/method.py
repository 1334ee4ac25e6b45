"""Method: a way to choose the heads to keep, under an exact budget.

Every method has its own file. Methods that never train give a ranking, which is cut at any budget.
Methods that learn their choice train for each budget.
"""

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from typing import Any, final

from headcount.core import (
    Head,
    Heads,
    InputError,
    Plan,
    UnsuitedError,
    amount,
    options_of,
    sorted_by,
)
from headcount.importance import Scores
from headcount.models import Loaded, plan_for
from headcount.pruning.budget import Unit, by_site, pruned_heads
from headcount.pruning.budget_spec import Keep
from headcount.pruning.context import PruningContext
from headcount.pruning.options import MethodOptions
from headcount.training import FinetuneConfig, check_finetuning

Order = Mapping[Head, float]
"""Heads that can be pruned, in the order of pruning, each with its score when it is pruned (higher
means more important; NaN if heads are not scored); heads of a unit follow each other."""


def ascending(units: Sequence[Unit], scores: Scores) -> Order:
    """The order by ascending mean score of the units' heads; ties keep the units' order.

    Raises:
        UnsuitedError: if a head has no score.
    """
    values = {head: float(scores[head.layer_id][head.index]) for unit in units for head in unit}
    if unknown := [str(head) for head, value in values.items() if math.isnan(value)]:
        raise UnsuitedError(
            f"Expected a score for every head that can be pruned, got none for {unknown[0]} and "
            f"{len(unknown) - 1} others. Use another method for this model."
        )
    return by_mean(units, values)


def by_mean(units: Sequence[Unit], values: Mapping[Head, float]) -> Order:
    """The order by ascending mean value of the units' heads; ties keep the units' order."""
    means = {unit: math.fsum(values[head] for head in unit) / len(unit) for unit in units}
    return in_order(sorted_by(units, means.__getitem__), values)


def in_order(units: Iterable[Unit], values: Mapping[Head, float]) -> Order:
    """The order of some units, in which they are given."""
    return {head: values[head] for unit in units for head in unit}


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
    compared: Mapping[str, float] | None = None
    """Loss by candidate, with the heads that it would keep; None if no methods were compared."""


class Method(MethodOptions):
    """A way to choose the heads to keep; heads with higher scores are kept."""

    tuning: FinetuneConfig | None = None
    """Settings of the training, for methods that train."""

    @property
    def changed_options(self) -> list[str]:
        """The options that differ from their defaults, as the command takes them."""
        return options_of(self) if is_dataclass(self) else []

    def passes(self, heads: int, pruned: int) -> float | None:
        """Passes over the examples that score heads, of which one with gradients counts as three.

        None if they are not known, or if the method trains: see `tuning`.

        Args:
            heads: number of heads of the model.
            pruned: number of heads to prune.
        """
        del heads, pruned
        return None

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


class Ranking(Method):
    """A method that needs no training: one order serves every budget for all heads together."""

    @abstractmethod
    def order(self, context: PruningContext, keep: Keep | None = None) -> Order:
        """The heads that can be pruned, in the order of pruning.

        Args:
            context: which heads can be pruned, and the data to choose with.
            keep: the budget, or None. If sites have budgets of their own, the order may depend on
                it; beyond the budget, the order need not be right.
        """

    def choose(self, context: PruningContext, keep: Keep) -> Selection:
        """Keep the last heads of the order; an impossible budget raises an error before ranking."""
        by_site(context.units, keep)
        order, heads = self.order(context, keep), context.units.heads
        asked = [head for unit in context.units.named(keep).units for head in unit]
        _check_order(order, asked, heads)
        stay = set(heads) - set(pruned_heads([*order], context.units, keep))
        plan = plan_for(context.loaded, stay)
        scores = {str(head): score for head, score in order.items() if not math.isnan(score)}
        return Selection(plan, context.loaded, scores)


def _check_order(order: object, asked: Sequence[Head], heads: Heads) -> None:
    """Check that an order has a number for each head at the sites of the budget, and for no others.

    Raises:
        InputError: if it has not.
    """
    got = ""
    if not isinstance(order, Mapping):
        got = f"a {type(order).__name__}"
    elif unknown := [each for each in order if not isinstance(each, Head) or each not in heads]:
        got = f"{unknown[0]!s:.40}, which is none of them"
    elif lacking := [each for each in asked if each not in order]:
        got = f"no {lacking[0]}"
    elif wrong := [each for each, score in order.items() if not isinstance(score, float | int)]:
        got = f"{type(order[wrong[0]]).__name__} for {wrong[0]}"
    if got:
        raise InputError(
            f"Expected an order with a number for each of {amount(len(asked), 'head')} that can be "
            f"pruned, got {got}."
        )
