"""Limit: a budget as a user gives it, and the choice of heads that meets it.

A budget is a number of heads, a share, a share of the cache, a number for each site, the fewest
heads whose score drops no further than allowed, or the most heads that are fast enough. The last
two are searched by bisection: the method chooses heads for each budget tried. Measurements are
saved in the state folder, if there is one, so that a killed search resumes and ends with the same
budget.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

from headcount.core import InputError, Kept, amount
from headcount.models import signature
from headcount.pruning.before_after import drop, evaluate_gated
from headcount.pruning.budget import GivenKeep, Keep, Units, by_site, dense, share
from headcount.pruning.context import PruningContext
from headcount.pruning.methods.method import Method, Selection
from headcount.pruning.methods.registry import chosen
from headcount.pruning.options import check_budget
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


@final
@dataclass(frozen=True)
class BudgetSpec:
    """Exactly one of five kinds of budget for `prune`.

    >>> BudgetSpec(max_drop=0.3).keep is None
    True

    Raises:
        InputError: for none, several, or an invalid limit.
    """

    keep: GivenKeep | None = None
    """Number of heads to keep."""
    share: float | None = None
    """Share of the prunable heads to keep."""
    cache: float | None = None
    """Largest share of the bytes of the key/value cache; entire groups are pruned."""
    max_drop: float | None = None
    """Largest drop of the score on the development set, in the score's unit."""
    latency: float | None = None
    """Largest latency of the compact model, in milliseconds."""

    def __post_init__(self) -> None:
        check_budget(self.keep, self.share, self.cache, self.max_drop, self.latency)
        if self.keep is not None:
            object.__setattr__(self, "keep", dense(self.keep))

    def budget(self, units: Units, anatomy: Anatomy) -> Keep | None:
        """The number of heads to keep, or None if it must be searched.

        Raises:
            InputError: if the units can't meet it; the error names the nearest possible number.
        """
        keep = share(units, self.share) if self.share is not None else self.keep
        if self.cache is not None:
            keep = _cached(units, anatomy, self.cache)
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


def choose(
    limit: BudgetSpec,
    method: Method,
    context: PruningContext,
    dev: Task,
    base: Evaluation,
    latency: Callable[[Selection], float] | None = None,
) -> Chosen:
    """The heads that a method keeps under a limit.

    Args:
        limit: the budget.
        method: the method that chooses heads.
        context: the model and data to choose with.
        dev: the development set on which a drop of the score is searched.
        base: the dense model's evaluation on it.
        latency: function that times the compact model of a selection, in milliseconds; needed only
            if the limit is a latency.

    Raises:
        InputError: if the limit can't be met, or the state belongs to another search.
    """
    keep = limit.budget(context.units, context.loaded.anatomy)
    if keep is not None:
        return Chosen(chosen(method, context, keep), keep)
    budgets, largest, what = _search_space(limit, context.units.possible(), dev)
    selections: dict[int, Selection] = {}

    def measured(selection: Selection) -> float:
        if limit.max_drop is not None:
            measured = context.watched(dev, "gated model on dev")
            after = evaluate_gated(selection.loaded, selection.plan, measured, context.max_tokens)
            return drop(dev, base, after)
        assert latency is not None
        return latency(selection)

    file = context.state and context.state / "limit.json"
    key = _key(limit, method, context, dev)
    if limit.latency is not None:  # milliseconds hold for one machine
        on = Machine.of(context.loaded.model)
        key = f"{key}|on:name {on.name}, cores {on.cores}, threads {on.threads}"
    kept = Kept(file, key, "the search of a budget", float)

    def measure(number: int) -> float:
        selection = chosen(method, context, number)
        if (value := measured(selection)) <= largest:
            selections.clear()  # keep only the last within: each can hold its own weights
            selections[number] = selection
        return value

    found = last_within(
        budgets, lambda number: kept.once(str(number), partial(measure, number)), largest, what
    )
    selection = selections.get(found.keep) or chosen(method, context, found.keep)
    return Chosen(selection, found.keep, found)


def _search_space(
    limit: BudgetSpec, possible: list[int], dev: Task
) -> tuple[list[int], float, str]:
    """Budgets in the order of the search, the largest value within the limit, and its name."""
    if limit.max_drop is not None:
        return possible[::-1], limit.max_drop, f"a drop of {dev.metric}"
    assert limit.latency is not None
    return possible, limit.latency, "a latency in ms"


def _key(limit: BudgetSpec, method: Method, context: PruningContext, dev: Task) -> str:
    return signature(
        context.loaded,
        context.train.sha256,
        dev=dev.sha256[:12],
        metric=dev.signature,
        device=input_device(context.loaded.model).type,
        units=context.units.sha256[:12],
        by=repr(method),
        limit=repr(limit),
        seed=context.seed,
    )


def kept_limit(
    limit: BudgetSpec, drops: Mapping[str, float], latency: float | None
) -> dict[str, bool] | None:
    """Whether a drop is met on every data set, or a latency; None for a fixed budget.

    Args:
        limit: the requested limit.
        drops: drop of the score on every data set.
        latency: latency of the final model in ms, if a latency was requested.
    """
    if limit.max_drop is not None:
        return {name: drop <= limit.max_drop for name, drop in drops.items()}
    if limit.latency is not None:
        assert latency is not None
        return {"latency": latency <= limit.latency}
    return None


def broken_limit(
    limit: BudgetSpec, kept: Mapping[str, bool] | None, latency: float | None
) -> list[str]:
    """Warnings for the user if the final model misses its limit or could not be checked."""
    if kept is None:
        return []
    if latency is not None:
        slower = f"the model, timed again, takes {latency:.4g} ms, more than {limit.latency}"
        return [] if kept["latency"] else [slower]
    found = [
        f"the drop on --{name} exceeds {limit.max_drop}, since the budget was searched on --dev "
        "with gates only"
        for name, is_within in kept.items()
        if not is_within
    ]
    if "test" not in kept:
        found.append("no --test was given, so the drop holds only for the data it was searched on")
    return found
