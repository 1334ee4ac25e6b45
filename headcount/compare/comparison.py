"""Comparison: two runs over one grid of heads, head by head and layer by layer.

Head by head only says something where the two models share their start (one was trained on from the
other) or are the same model on other data: models trained apart number their heads by chance. Then
what compares is how many heads of each layer have a role, and the means of layers.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from headcount.errors import InputError
from headcount.importance.correlation import Correlation, correlation
from headcount.reports.run import HeadRow, Run
from headcount.roles import ROLES


@final
@dataclass(frozen=True)
class Change:
    """A head that has other roles in the second run."""

    head: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@final
@dataclass(frozen=True)
class Comparison:
    """What two runs have in common."""

    counts: Mapping[str, Mapping[str, tuple[int, int]]]
    """Site to role to number of heads in the first and in the second run."""
    changes: tuple[Change, ...]
    """Heads whose roles differ, in the order of the table."""
    same_roles: int
    """Heads that have a role, and the same ones in both runs."""
    by_head: Mapping[str, Correlation]
    """Column to Spearman's rank correlation over heads."""
    by_layer: Mapping[str, Correlation]
    """The same over the means of layers."""


def compare(one: Run, other: Run) -> Comparison:
    """Compare two runs.

    Raises:
        InputError: if they are not over the same grid of heads.
    """
    names = [[row.head for row in run.heads] for run in (one, other)]
    if names[0] != names[1]:
        raise InputError(
            f"two runs over the same heads were expected, but the first has {len(names[0])} "
            f"({', '.join(one.sites)}) and the second {len(names[1])} ({', '.join(other.sites)}): "
            "compare models of one architecture and size; what a pruned model does beside the "
            "whole one is told by `headcount prune --analysis --corpus`"
        )
    pairs = list(zip(one.heads, other.heads, strict=True))
    changes = [Change(a.head, a.roles, b.roles) for a, b in pairs if set(a.roles) != set(b.roles)]
    same = sum(bool(a.roles) and set(a.roles) == set(b.roles) for a, b in pairs)
    shared = [name for name in one.measures if name in other.measures]
    return Comparison(
        {site: _counts(one, other, site) for site in one.sites},
        tuple(changes),
        same,
        {name: correlation(_of_heads(one, name), _of_heads(other, name)) for name in shared},
        {name: correlation(_of_layers(one, name), _of_layers(other, name)) for name in shared},
    )


def _counts(one: Run, other: Run, site: str) -> dict[str, tuple[int, int]]:
    """Heads of a site with each role, those with none last."""
    counts = [
        Counter(role for row in run.heads if row.site == site for role in row.roles or ("none",))
        for run in (one, other)
    ]
    return {role: (counts[0][role], counts[1][role]) for role in (*ROLES, "none")}


def _of_heads(run: Run, column: str) -> np.ndarray:
    return np.array([row.values[column] for row in run.heads])


def _of_layers(run: Run, column: str) -> np.ndarray:
    layers: dict[tuple[str, int], list[HeadRow]] = {}
    for row in run.heads:
        layers.setdefault((row.site, row.layer), []).append(row)
    return np.array([np.mean([row.values[column] for row in rows]) for rows in layers.values()])
