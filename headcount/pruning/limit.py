"""Limit: the choice of heads that meets a budget.

A budget that is no number of heads is searched by bisection: the fewest heads whose score drops no
further than allowed, or the most heads that are small and fast enough. The method chooses heads for
each number tried. Measurements are saved in the state folder, if there is one, so that a killed
search resumes and ends with the same number.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import final

from headcount.core import InputError, Kept, amount
from headcount.models import signature
from headcount.numbers import percent
from headcount.pruning.before_after import changes, evaluate_gated
from headcount.pruning.budget import Units, by_site, share
from headcount.pruning.budget_spec import BudgetSpec, Keep, dense
from headcount.pruning.context import PruningContext
from headcount.pruning.methods.method import Method, Selection
from headcount.pruning.methods.registry import chosen
from headcount.results import DATA_SETS, MetricChange
from headcount.speed import Machine
from headcount.tap import Anatomy, input_device
from headcount.tasks import Evaluation, Task


@final
@dataclass(frozen=True)
class Found:
    """The result of a search."""

    keep: int
    """Number of heads to keep."""
    tried: Mapping[int, float]
    """Measured number for each budget tried, in the order of trying."""


def last_within(
    budgets: Sequence[int], measure: Callable[[int], float], limit: float, what: str
) -> Found:
    """The last budget at which a measured number is within a limit.

    Bisection assumes that the number grows along the budgets. If it does not, the budget found is
    within the limit and the next one tried is not, but later ones may be within it again.

    Args:
        budgets: budgets, from the most to the least likely to be within the limit.
        measure: function that measures a budget; it is called for about log2 of them.
        limit: the largest number allowed.
        what: name of the measured number, for the error.

    Raises:
        InputError: if even the first budget exceeds the limit; the error says what was measured.
    """
    tried = {budgets[0]: measure(budgets[0])}
    if not tried[budgets[0]] <= limit:
        raise InputError(
            f"Expected {what} of at most {limit:g}, got {tried[budgets[0]]:.4g} with "
            f"{amount(budgets[0], 'head')} already. Raise the limit."
        )
    within, beyond = 0, len(budgets)
    while beyond - within > 1:
        middle = (within + beyond) // 2
        tried[budgets[middle]] = measure(budgets[middle])
        if tried[budgets[middle]] <= limit:
            within = middle
        else:
            beyond = middle
    return Found(budgets[within], tried)


def number_of_heads(limit: BudgetSpec, units: Units, anatomy: Anatomy) -> Keep | None:
    """The number of heads that a budget names, or None if it must be searched.

    Raises:
        InputError: if the units can't meet it; the error names the nearest possible number.
    """
    keep = share(units, limit.share) if limit.share is not None else limit.keep
    if limit.cache is not None:
        keep = _cached(units, anatomy, limit.cache)
    if keep is None:
        return None
    by_site(units, keep)
    return dense(keep)


def _cached(units: Units, anatomy: Anatomy, part: float) -> int:
    """The most heads whose keys and values take at most a share of the cache's bytes.

    Args:
        units: entire groups of heads that share keys and values.
        anatomy: anatomy of the model.
        part: the share, by bytes a token.

    Raises:
        InputError: for a share that the units can't meet, single heads of groups, or a model whose
            cache is not of equally large groups of one site.
    """
    sizes = {
        (layer.site, layer.num_heads // layer.num_key_value_heads, layer.head_dim)
        for layer in anatomy.layers
    }
    if len(sizes) > 1 or [site for site, *_ in sizes] != ["decoder.self"]:
        raise InputError(
            "Expected a causal language model whose key/value groups are of one size, to keep a "
            f"share of its cache, got heads at {' and '.join(anatomy.heads.counts)} with "
            f"{amount(len(sizes), 'size')} of groups. Give the number of heads to keep."
        )
    ((_, size, _),) = sizes
    if units.groups:
        raise InputError(
            "Expected entire key/value groups to keep a share of the cache, which single heads of "
            "a group do not make smaller. Leave out --no-groups, or whole_groups=False."
        )
    possible = units.possible()
    within = [number for number in possible if number <= part * len(units.heads) + 1e-9]
    if not within:
        raise InputError(
            f"Expected a share of the cache that can be kept, from {possible[0]} of "
            f"{amount(len(units.heads), 'head')} in groups of {size}, got {part:g}. Raise it, or "
            "protect fewer heads."
        )
    return within[-1]


@final
@dataclass(frozen=True, eq=False)
class Chosen:
    """The choice, and how its budget was found."""

    selection: Selection
    """The heads that the method chose."""
    keep: Keep
    """The number of heads to keep."""
    found: Found | None = None
    """What the search tried; None if there was no search."""


Cost = Callable[[Selection], float]
"""What a compact model costs: it grows with the number of heads."""

COSTS = {
    "latency": "a latency in ms",
    "speedup": "a share of the dense model's time",
    "size": "a share of the bytes of the dense model's weights",
}
"""What is measured for each limit on costs."""


def choose(
    limit: BudgetSpec,
    method: Method,
    context: PruningContext,
    dev: Task,
    base: Evaluation,
    costs: Mapping[str, Cost] | None = None,
) -> Chosen:
    """The heads that a method keeps under a limit.

    Args:
        limit: the budget.
        method: the method that chooses heads.
        context: the model and data to choose with.
        dev: the development set on which a drop of the score is searched.
        base: the dense model's evaluation on it.
        costs: function that measures the compact model of a selection, for every limit on costs;
            see `COSTS`.

    Raises:
        InputError: if the limit can't be met, or the state belongs to another search.
    """
    keep = number_of_heads(limit, context.units, context.loaded.anatomy)
    if keep is not None and not limit.costs:
        return Chosen(chosen(method, context, keep), keep)
    possible = context.units.possible()
    if isinstance(keep, int):
        possible = [number for number in possible if number <= keep]
    search = _Search.of(limit, method, context, dev)
    if not limit.costs:
        largest, what = limit.largest_drop(dev.score(base)), f"a drop of {dev.metric}"
        cost = partial(_drop, context, dev, base)
        return search.chosen(search.last("max_drop", possible[::-1], cost, largest, what))
    assert costs is not None
    found = Found(possible[-1], {})
    for name in limit.costs:
        found = search.last(name, possible, costs[name], largest_cost(limit, name), COSTS[name])
        possible = possible[: possible.index(found.keep) + 1]
    return search.chosen(found)


def largest_cost(limit: BudgetSpec, name: str) -> float:
    """The largest cost that a limit allows, in the unit that `COSTS` names."""
    if limit.speedup is not None and name == "speedup":
        return 1 / limit.speedup
    return float(getattr(limit, name))


def _drop(context: PruningContext, dev: Task, base: Evaluation, selection: Selection) -> float:
    """The upper end of the drop's interval, with gates; the drop itself where that is unknown."""
    task = context.watched(dev, "gated model on dev")
    after = evaluate_gated(selection.loaded, selection.plan, task, context.max_tokens)
    return changes(dev, base, after, seed=context.seed).score.largest_drop


@final
@dataclass(frozen=True)
class _Search:
    """Searches numbers of heads, and remembers what it measured."""

    method: Method
    context: PruningContext
    kept: Kept[float]
    """Measured number by limit and number of heads."""
    selections: dict[int, Selection] = field(default_factory=dict)
    """The last choice within a limit: each can hold weights of its own."""

    @classmethod
    def of(cls, limit: BudgetSpec, method: Method, context: PruningContext, dev: Task) -> "_Search":
        """A search that resumes from the context's state."""
        file = context.state and context.state / "limit.json"
        key = budget_key(limit, repr(method), context, dev)
        return cls(method, context, Kept(file, key, "the search of a budget", float))

    def last(
        self, name: str, budgets: Sequence[int], cost: Cost, largest: float, what: str
    ) -> Found:
        """The last of some numbers of heads that is within a limit; see `last_within`."""

        def measure(number: int) -> float:
            selection = chosen(self.method, self.context, number)
            if (value := cost(selection)) <= largest:
                self.selections.clear()
                self.selections[number] = selection
            return value

        def once(number: int) -> float:
            return self.kept.once(f"{name} {number}", partial(measure, number))

        return last_within(budgets, once, largest, what)

    def chosen(self, found: Found) -> Chosen:
        """The heads of the number that a search found."""
        selection = self.selections.get(found.keep)
        return Chosen(selection or chosen(self.method, self.context, found.keep), found.keep, found)


def budget_key(limit: BudgetSpec, by: str, context: PruningContext, dev: Task) -> str:
    """What a choice under a budget depends on.

    Args:
        limit: the budget.
        by: what chooses.
        context: the model and data to choose with.
        dev: the development set.
    """
    key = signature(
        context.loaded,
        context.train.sha256,
        dev=dev.sha256[:12],
        metric=dev.signature,
        device=input_device(context.loaded.model).type,
        units=context.units.sha256[:12],
        by=by,
        limit=repr(limit),
        seed=context.seed,
    )
    if not {"latency", "speedup"}.intersection(limit.costs):
        return key
    on = Machine.of(context.loaded.model)  # times hold for one machine
    return f"{key}|on:name {on.name}, cores {on.cores}, threads {on.threads}"


def kept_limit(
    limit: BudgetSpec, scores: Mapping[str, MetricChange], costs: Mapping[str, float]
) -> dict[str, bool] | None:
    """Whether the final model meets each limit, a drop on every data set; None without any limit.

    Args:
        limit: the requested limits.
        scores: change of the score on every data set.
        costs: cost of the final model for every limit on costs; see `COSTS`.
    """
    found = {name: cost <= largest_cost(limit, name) for name, cost in costs.items()}
    if limit.max_drop is not None:
        for name, each in scores.items():
            found[name] = each.largest_drop <= limit.largest_drop(each.before)
    return found or None


def broken_limit(
    limit: BudgetSpec, kept: Mapping[str, bool] | None, costs: Mapping[str, float]
) -> list[str]:
    """Warnings for the user if the final model misses a limit or could not be checked."""
    if kept is None:
        return []
    missed = {
        "latency": "the model, timed again, takes {} ms, more than {}",
        "speedup": "the model, timed again, takes {} of the dense model's time, more than the "
        "{} of --speedup",
        "size": "the model has {} of the bytes of the dense one, more than {}",
    }
    in_percent = partial(percent, digits=1)
    shown = {"latency": "{:.4g}".format, "speedup": in_percent, "size": in_percent}
    found = [
        missed[name].format(*map(shown[name], (cost, largest_cost(limit, name))))
        for name, cost in costs.items()
        if not kept[name]
    ]
    if limit.max_drop is None:
        return found
    why = "other limits chose the heads" if limit.costs else "heads were chosen on --dev, gated"
    found += [
        f"the drop on --{name} may exceed {limit.max_drop}, since {why}"
        for name in DATA_SETS
        if not kept.get(name, True)
    ]
    if "test" not in kept:
        found.append("no --test was given, so the drop holds only for the data it was searched on")
    return found
