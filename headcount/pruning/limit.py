"""Limit: a budget as a user gives it, and the choice of heads that meets it.

A budget is a number of heads, a share, a number for each site, the fewest heads whose score drops
no further than allowed, or the most heads that are fast enough. The last two are searched by
bisection: the method chooses heads for each budget tried. Measurements are saved in the state
folder, if there is one, so that a killed search resumes and ends with the same budget.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite
from typing import final

from headcount.errors import InputError
from headcount.keyed import read_keyed, write_keyed
from headcount.models.load import Loaded
from headcount.pruning.budget import GivenKeep, Keep, Units, by_site, share, whole
from headcount.pruning.gated import drop, evaluate_gated
from headcount.pruning.method import Choice, Method, Setting
from headcount.pruning.search import Found, last_within
from headcount.signature import signature
from headcount.speed.machine import machine
from headcount.tasks import Evaluation, Task


@final
@dataclass(frozen=True)
class Limit:
    """Exactly one of four kinds of budget.

    Raises:
        InputError: for none, several, or an invalid limit.
    """

    keep: GivenKeep | None = None
    """Number of heads to keep."""
    share: float | None = None
    """Share of the prunable heads to keep."""
    max_drop: float | None = None
    """Largest drop of the score on the development set, in the score's unit."""
    latency: float | None = None
    """Largest latency of the compact model, in milliseconds."""

    def __post_init__(self) -> None:
        given = [name for name, value in vars(self).items() if value is not None]
        if len(given) != 1:
            raise InputError(
                "Expected one budget out of --keep, --share, --max-drop and --latency, got "
                f"{' and '.join(given) or 'none'}."
            )
        if self.keep is not None:
            object.__setattr__(self, "keep", whole(self.keep))
        if self.max_drop is not None and not isfinite(self.max_drop):
            raise InputError(f"Expected a finite largest drop, got {self.max_drop}.")
        if self.latency is not None and not 0 < self.latency < inf:
            raise InputError(f"Expected a finite latency above 0 ms, got {self.latency}.")

    def budget(self, units: Units) -> Keep | None:
        """The number of heads to keep, or None if it must be searched.

        Raises:
            InputError: if the units can't meet it; the error names the nearest possible number.
        """
        keep = share(units, self.share) if self.share is not None else self.keep
        if keep is None:
            return None
        by_site(units, keep)
        return whole(keep)


@final
@dataclass(frozen=True, eq=False)
class Chosen:
    """The choice, and how its budget was found."""

    choice: Choice
    keep: Keep
    found: Found | None = None
    """What the search tried; None if there was no search."""


def choose(
    limit: Limit,
    method: Method,
    setting: Setting,
    dev: Task,
    base: Evaluation,
    latency: Callable[[Choice], float] | None = None,
) -> Chosen:
    """The heads that a method keeps under a limit.

    Args:
        limit: the budget.
        method: the method that chooses heads.
        setting: the model and data to choose with.
        dev: the development set on which a drop of the score is searched.
        base: the dense model's evaluation on it.
        latency: function that times the compact model of a choice, in milliseconds; needed only if
            the limit is a latency.

    Raises:
        InputError: if the limit can't be met, or the state belongs to another search.
    """
    keep = limit.budget(setting.units)
    if keep is not None:
        return Chosen(method.choose(setting, keep), keep)
    possible = setting.units.possible()
    if limit.max_drop is not None:
        budgets, largest, what = possible[::-1], limit.max_drop, f"a drop of {dev.metric}"
    else:
        assert limit.latency is not None
        budgets, largest, what = possible, limit.latency, "a latency in ms"

    choices: dict[int, Choice] = {}

    def measured(choice: Choice) -> float:
        if limit.max_drop is not None:
            after = evaluate_gated(choice.loaded, choice.plan, dev, setting.max_tokens)
            return drop(dev, base, after)
        assert latency is not None
        return latency(choice)

    file = setting.state and setting.state / "limit.json"
    key = _key(limit, method, setting, dev)
    if limit.latency is not None:  # milliseconds hold for one machine
        key = f"{key}|on:{_timed_on(setting.loaded)}"
    done = read_keyed(file, key, "the search of a budget")

    def measure(number: int) -> float:
        if str(number) not in done:
            choice = method.choose(setting, number)
            if (value := measured(choice)) <= largest:
                choices.clear()  # keep only the last within: each can hold its own weights
                choices[number] = choice
            done[str(number)] = value
            write_keyed(file, key, {name: each for name, each in done.items() if isfinite(each)})
        return done[str(number)]

    found = last_within(budgets, measure, largest, what)
    choice = choices.get(found.keep) or method.choose(setting, found.keep)
    return Chosen(choice, found.keep, found)


def _timed_on(loaded: Loaded) -> str:
    found = machine(loaded.model)
    return ", ".join(f"{name} {found[name]}" for name in ("name", "cores", "threads"))


def _key(limit: Limit, method: Method, setting: Setting, dev: Task) -> str:
    return signature(
        setting.loaded, setting.train.sha256, dev=dev.sha256[:12], metric=dev.signature,
        device=setting.loaded.model.device.type,
        units=setting.units.sha256[:12], by=repr(method), limit=repr(limit), seed=setting.seed,
    )  # fmt: skip
