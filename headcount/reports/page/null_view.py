"""The section on chance: how many heads would get each role at random weights."""

from collections import Counter
from dataclasses import dataclass
from typing import final

from headcount import numbers
from headcount.reports.page.section import Section
from headcount.reports.sentences import by_chance
from headcount.results import Analysis
from headcount.vocabulary import RoleEntry, roles_named


@final
@dataclass(frozen=True)
class RoleCount:
    """A role with the number of its heads; `role` is None for heads without a role."""

    role: RoleEntry | None
    count: str
    null_count: str
    """Number of its heads at random weights."""


@final
@dataclass(frozen=True)
class Null:
    """The section."""

    lede: str
    """Number of heads with a role at random weights, in words."""
    counts: tuple[RoleCount, ...]


def section(run: Analysis) -> Section | None:
    """The section on chance; None without a null run."""
    if run.null_rows is None:
        return None
    view = Null(by_chance([row.roles for row in run.null_rows]), role_counts(run))
    return Section("null", "Is it more than chance?", "chance", "_null.html.j2", view)


def role_counts(run: Analysis) -> tuple[RoleCount, ...]:
    """Every role that occurs with its number of heads, heads without a role last."""
    found, random = ([row.roles for row in heads] for heads in (run.rows, run.null_rows or ()))
    names = roles_named(name for head in [*found, *random] for name in head)
    counts = [Counter(name for head in heads for name in {*head}) for heads in (found, random)]
    rows = [
        RoleCount(role, *(numbers.count(each[name]) for each in counts))
        for name, role in names.items()
    ]
    without = [numbers.count(sum(not head for head in heads)) for heads in (found, random)]
    return (*rows, RoleCount(None, *without))
