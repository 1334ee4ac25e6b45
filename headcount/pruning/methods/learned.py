"""Learned: what methods that train gates share: training, then an exact choice.

L0: keep the heads whose Hard Concrete gates remain open under a penalty.

One training lowers the expected number of open heads to the budget (`gates.Budget`); then exactly
that many of the likeliest heads are kept. With a `coefficient` the penalty has a fixed strength, as
in the paper, and the budget is met by rounding alone. With a `sweep`, several trainings search for
the coefficient that leaves as many gates `open` as the budget keeps. Budgets that share a state
folder share these trainings.

Departure: gradients of the loss are clipped to the norm `tuning.clip`, but the penalty's gradient
is not. So a fixed coefficient weighs more in clipped steps; a large `tuning.clip` avoids this.

Subset: train a relaxed subset of exactly K heads, then keep the K best.

`FinetuneConfig(trained="all")` trains the weights too (joint); `trained="gates"` trains the choice
alone (pipelined).

References: Voita et al. (2019), section 6; Louizos et al. (2018); Wang et al. (2020): see
`headcount.gates`.

Reference: Differentiable Subset Pruning of Transformer Heads (Li et al., 2021), section 4,
https://arxiv.org/abs/2108.04657
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, final

from headcount.core import Head, InputError, Pace, Plan, amount, sorted_by
from headcount.gates import (
    BudgetConstraint,
    HardConcrete,
    L0Penalty,
    Layout,
    LearnedGates,
    Quota,
    quotas,
)
from headcount.gates import Subset as SubsetGates
from headcount.models import Loaded, plan_for
from headcount.pruning.budget import Units, by_site, pruned_heads
from headcount.pruning.budget_spec import Keep
from headcount.pruning.context import PruningContext
from headcount.pruning.methods.method import Method, Selection
from headcount.pruning.options import L0Options, SubsetOptions
from headcount.tap import Anatomy
from headcount.training import FinetuneConfig, finetune


def learned(
    context: PruningContext,
    keep: Keep,
    gates: LearnedGates,
    tuning: FinetuneConfig,
    method: Method,
    name: str | None = None,
) -> Selection:
    """Train a copy of the model with gates, and keep the units with the highest scores.

    Args:
        context: the model, the data, and the units that can be pruned.
        keep: the budget.
        gates: one for each unit of the sites that the budget names.
        tuning: settings of the training.
        method: the method; its `repr` goes into the record and must not change when resuming.
        name: name of a training that all budgets share; by default each budget has its own.
    """
    units = context.units.named(keep)
    about = {"method": repr(method), "units": units.sha256}
    if name is None:  # every budget has its own training in its own folder
        name, about = _budget_name(keep), about | {"keep": repr(keep)}
    tuned = finetune(
        context.loaded,
        context.train,
        tuning,
        gates=gates,
        teacher=context.loaded.model,
        run=context.training_run("gates", context.state and context.state / name, about),
    )
    plan = plan_of(gates, tuned.loaded, context.units, keep, context.loaded.anatomy)
    scores = {str(head): score for head, score in _score_of(gates).items()}
    return Selection(plan, tuned.loaded, scores, tuple(tuned.history))


def plan_of(
    gates: LearnedGates,
    loaded: Loaded,
    units: Units,
    keep: Keep,
    anatomy: Anatomy | None = None,
) -> Plan:
    """The plan that keeps exactly the budget's number of heads: those with the highest scores.

    Args:
        gates: trained gates, from any training.
        loaded: the model that was trained with them.
        units: the units that can be pruned.
        keep: the budget: number of heads to keep in all, or at each site named.
        anatomy: attention layers of the model before the training, which leaves them as they are;
            None to find them again.

    Raises:
        InputError: for gates of other units, or a budget that the units can't meet.
        ModelError: for scores that are not finite.
    """
    if set(gates.layout.units) != set(units.named(keep).units):
        raise InputError(
            "Expected gates for the units that can be pruned, got gates for others: "
            f"{len(gates.layout.units)} of them, for {amount(len(units.units), 'unit')}. Make them "
            "from `Layout(units.heads, units.units)`."
        )
    gates.layout.check_finite(gates.scores(), "score")
    score_of = _score_of(gates)
    order = sorted_by(score_of, score_of.__getitem__)
    return plan_for(loaded, set(units.heads) - set(pruned_heads(order, units, keep)), anatomy)


def _score_of(gates: LearnedGates) -> dict[Head, float]:
    score_U = gates.scores().cpu().double().tolist()
    pairs = zip(gates.layout.units, score_U, strict=True)
    return {head: score for unit, score in pairs for head in unit}


def _budget_name(keep: Keep) -> str:
    sites = keep if isinstance(keep, Mapping) else {"all": keep}
    return "-".join(f"{site}-{number}" for site, number in sites.items())


FACTOR = 4.0
"""Ratio of successive coefficients while all numbers of open heads lie on one side."""

Trained = TypeVar("Trained")


def swept(
    train: Callable[[float], Trained],
    count: Callable[[Trained], Sequence[int]],
    wanted: Sequence[int],
    first: float,
    trials: int,
) -> tuple[Trained, dict[float, int]]:
    """Search for the coefficient of a penalty that leaves a given number of heads open.

    The search assumes that the number falls as the coefficient grows. If noise makes it rise, the
    answer is still the nearest of those tried.

    >>> swept(lambda coefficient: [round(8 - 40 * coefficient)], list, [4], 0.2, 8)
    ([4], {0.2: 0, 0.05: 6, 0.1: 4})

    Args:
        train: function that trains with a coefficient.
        count: function that gives the number of heads a training left open, at each of some sites.
        wanted: target numbers of open heads at these sites.
        first: first coefficient, above 0.
        trials: largest number of coefficients, at least 1.

    Returns:
        The training with the smallest error summed over sites, where ties prefer more open heads;
        and the number of open heads in all by coefficient, in the order of trying.
    """
    nearest = train(first)
    tried = {first: sum(count(nearest))}
    pace = Pace(trials, "trainings")
    while len(tried) < trials and sum(wanted) not in tried.values():
        coefficient = _next(tried, sum(wanted))
        trained = train(coefficient)
        tried[coefficient] = sum(count(trained))
        pace.step()
        if _misses(count(trained), wanted) < _misses(count(nearest), wanted):
            nearest = trained
    return nearest, tried


def _next(tried: Mapping[float, int], wanted: int) -> float:
    """A coefficient not tried yet, even if numbers do not fall as coefficients grow."""
    strong = [coefficient for coefficient, number in tried.items() if number < wanted]
    if not strong:
        return max(tried) * FACTOR
    weak = [coefficient for coefficient in tried if coefficient < min(strong)]
    return math.sqrt(max(weak) * min(strong)) if weak else min(strong) / FACTOR


def _misses(numbers: Sequence[int], wanted: Sequence[int]) -> tuple[int, int]:
    apart = sum(abs(number - want) for number, want in zip(numbers, wanted, strict=True))
    return apart, -sum(numbers)


PUBLISHED = 0.1
"""Coefficient of the authors' code, for a mean over the layers with gates; a sweep starts there."""


@final
@dataclass(frozen=True)
class L0(L0Options, Method):
    """Learns which heads to keep, jointly with the weights."""

    def choose(self, context: PruningContext, keep: Keep) -> Selection:
        """Train with gates, then keep the likeliest heads."""
        context = replace(context, units=context.units.tied())
        return self._swept(context, keep) if self.sweep else self._trained(context, keep)

    def _swept(self, context: PruningContext, keep: Keep) -> Selection:
        """The choice of the coefficient whose number of open gates is nearest to the budget."""
        layout, open_quotas = _gated(context, keep)
        num_layers = len({head.layer_id for unit in layout.units for head in unit})
        nearest, tried = swept(
            lambda coefficient: replace(self, sweep=0, coefficient=coefficient)._trained(
                context, keep
            ),
            lambda selection: [_open(selection, quota.site) for quota in open_quotas],
            [quota.heads for quota in open_quotas],
            self.coefficient or PUBLISHED / num_layers,
            self.sweep,
        )
        return replace(nearest, swept={str(each): number for each, number in tried.items()})

    def _trained(self, context: PruningContext, keep: Keep) -> Selection:
        layout, open_quotas = _gated(context, keep)
        if self.coefficient is None:
            name, pressure = None, BudgetConstraint(layout, open_quotas, self.falling)
        else:
            name = f"coefficient-{self.coefficient:.6g}"
            pressure = L0Penalty(layout, self.coefficient)
        if self.voita2019:
            gates = HardConcrete.voita2019(layout, pressure, context.seed)
        else:
            gates = HardConcrete(layout, pressure, context.seed, self.start)
        selection = learned(context, keep, gates, tuning=self.tuning, method=self, name=name)
        open_at = {site: int(n) for site, n in layout.by_site(gates.likelier().float()).items()}
        return replace(selection, open=open_at)


def _open(selection: Selection, site: str | None) -> int:
    """Number of heads whose gates a training left open, at a site or in all."""
    assert selection.open is not None
    return sum(selection.open.values()) if site is None else selection.open[site]


def _gated(context: PruningContext, keep: Keep) -> tuple[Layout, tuple[Quota, ...]]:
    """The gated heads under a budget, and how many of them remain open."""
    layout = Layout(context.units.heads, context.units.named(keep).units)
    return layout, quotas(layout, tuple(by_site(context.units, keep).items()))


@final
@dataclass(frozen=True)
class Subset(SubsetOptions, Method):
    """Learns a subset of exactly as many heads as the budget keeps."""

    def choose(self, context: PruningContext, keep: Keep) -> Selection:
        """Train with gates, then keep the heads with the highest scores."""
        context = replace(context, units=context.units.tied())
        gates = SubsetGates(
            *_gated(context, keep),
            seed=context.seed,
            temperatures=(self.hot, self.cold),
            straight_through=self.straight_through,
            softmax_gradient=self.softmax_gradient,
        )
        return learned(context, keep, gates, self.tuning, self)
