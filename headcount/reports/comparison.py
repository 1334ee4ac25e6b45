"""Comparison: two runs, head by head and layer by layer.

Comparing head by head is meaningful only if one model was trained further from the other, or both
runs are of one model on different data: models trained independently number their heads by chance.
For those, compare the number of heads with each role, and the means of layers. Runs over different
heads are compared by what their heads do and find, never head by head.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from headcount.importance import correlation
from headcount.reports.pruning_order import PruningOrder, pruning_orders
from headcount.results import (
    MODEL,
    READING,
    Analysis,
    Correlation,
    HeadRow,
    Matching,
    Signature,
)


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

    is_paired: bool
    """Whether both runs are over the same heads; if not, nothing is compared head by head."""
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
    orders: tuple[PruningOrder, ...] = ()
    """Where both models keep their heads, by every score or curve that both runs have."""
    matching: Matching | None = None
    """Heads paired by what they do; None unless that was asked for."""
    warnings: tuple[str, ...] = ()
    """What makes the numbers of the two runs differ besides heads and data."""


def compare(one: Analysis, other: Analysis) -> Comparison:
    """Compare two runs.

    Raises:
        InputError: if they were measured in different ways; names the part of the signature.
    """
    warnings = _warnings(one, other)
    is_paired = [row.head for row in one.rows] == [row.head for row in other.rows]
    if not is_paired:
        sites = dict.fromkeys((*one.sites, *other.sites))
        counts = {site: _counts(one, other, site) for site in sites}
        return Comparison(
            is_paired=False,
            counts=counts,
            changes=(),
            same_roles=0,
            by_head={},
            by_layer={},
            orders=pruning_orders(one, other),
            warnings=warnings,
        )
    pairs = list(zip(one.rows, other.rows, strict=True))
    changes = [Change(a.head, a.roles, b.roles) for a, b in pairs if set(a.roles) != set(b.roles)]
    same = sum(bool(a.roles) and set(a.roles) == set(b.roles) for a, b in pairs)
    shared = [name for name in one.measures if name in other.measures]
    return Comparison(
        is_paired=True,
        counts={site: _counts(one, other, site) for site in one.sites},
        changes=tuple(changes),
        same_roles=same,
        by_head={
            name: correlation(_of_heads(one, name), _of_heads(other, name)) for name in shared
        },
        by_layer={
            name: correlation(_of_layers(one, name), _of_layers(other, name)) for name in shared
        },
        orders=pruning_orders(one, other),
        warnings=warnings,
    )


def _warnings(one: Analysis, other: Analysis) -> tuple[str, ...]:
    """Check that all numbers of two runs were measured alike; warnings of what can't be checked."""
    pairs = [(one.record.signed, other.record.signed)]
    curves = [None if run.curve is None else run.curve.record for run in (one, other)]
    for a, b in ((one.importance, other.importance), curves):
        if a is not None and b is not None and a.signature and b.signature:
            pairs.append((Signature.parse(a.signature), Signature.parse(b.signature)))
    found = (sentence for a, b in pairs for sentence in a.check_same(b, MODEL | READING))
    return tuple(dict.fromkeys(found))


def _counts(one: Analysis, other: Analysis, site: str) -> dict[str, tuple[int, int]]:
    """Number of a site's heads with each role; heads without a role come last."""
    counts = [
        Counter(role for row in run.rows if row.site == site for role in row.roles or ("none",))
        for run in (one, other)
    ]
    roles = (*one.record.inputs.roles, "none")
    return {role: (counts[0][role], counts[1][role]) for role in roles}


def _of_heads(run: Analysis, column: str) -> np.ndarray:
    return np.array([row.values[column] for row in run.rows])


def _of_layers(run: Analysis, column: str) -> np.ndarray:
    layers: dict[tuple[str, int], list[HeadRow]] = {}
    for row in run.rows:
        layers.setdefault(row.layer_id, []).append(row)
    return np.array([np.mean([row.values[column] for row in rows]) for rows in layers.values()])


SKIPPED = ("ablation_low", "ablation_high", "ablation_p", "positional_offset", "rare_cases")
"""Columns that are not scores of heads."""
