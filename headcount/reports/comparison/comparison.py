"""Comparison: two runs over one grid of heads, head by head and layer by layer.

Comparing head by head is meaningful only if one model was trained further from the other, or both
runs are of one model on different data: models trained independently number their heads by chance.
For those, compare the number of heads with each role, and the means of layers.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from headcount.analysis import ROLES
from headcount.core import InputError
from headcount.importance import correlation
from headcount.results import Correlation, HeadRow, Run


@final
@dataclass(frozen=True)
class Change:
    """A head whose roles differ in the second run."""

    head: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@final
@dataclass(frozen=True)
class Comparison:
    """The similarities and differences of two runs."""

    counts: Mapping[str, Mapping[str, tuple[int, int]]]
    """Number of heads in the first and the second run, by site and role."""
    changes: tuple[Change, ...]
    """Heads whose roles differ, in the order of the table."""
    same_roles: int
    """Number of heads with the same roles in both runs, at least one."""
    by_head: Mapping[str, Correlation]
    """Spearman's rank correlation over heads, by column."""
    by_layer: Mapping[str, Correlation]
    """Spearman's rank correlation over the means of layers, by column."""


def compare(one: Run, other: Run) -> Comparison:
    """Compare two runs.

    Raises:
        InputError: if they are not over the same grid of heads.
    """
    names = [[row.head for row in run.heads] for run in (one, other)]
    if names[0] != names[1]:
        raise InputError(
            f"Expected two runs over the same heads, but the first has {len(names[0])} "
            f"({', '.join(one.sites)}) and the second {len(names[1])} ({', '.join(other.sites)}). "
            "Compare models of one architecture and size. To compare a pruned model with the "
            "dense one, run `headcount prune --analysis --corpus`"
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
    """Number of a site's heads with each role; heads without a role come last."""
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
        layers.setdefault(row.layer_id, []).append(row)
    return np.array([np.mean([row.values[column] for row in rows]) for rows in layers.values()])
