"""Learned: what methods that train gates share: training, then an exact choice."""

from collections.abc import Mapping

from headcount.core import Head, InputError, Plan, amount
from headcount.gates import LearnedGates
from headcount.models import Loaded, plan_for
from headcount.pruning.budget import Keep, Units, pruned_heads
from headcount.pruning.context import PruningContext
from headcount.pruning.methods.method import Method, Selection
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
    order = sorted(score_of, key=score_of.__getitem__)
    return plan_for(loaded, set(units.heads) - set(pruned_heads(order, units, keep)), anatomy)


def _score_of(gates: LearnedGates) -> dict[Head, float]:
    score_U = gates.scores().cpu().double().tolist()
    pairs = zip(gates.layout.units, score_U, strict=True)
    return {head: score for unit, score in pairs for head in unit}


def _budget_name(keep: Keep) -> str:
    sites = keep if isinstance(keep, Mapping) else {"all": keep}
    return "-".join(f"{site}-{number}" for site, number in sites.items())
