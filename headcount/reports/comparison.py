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

from headcount.analysis import IMAGE_ROLES, ROLES
from headcount.importance import correlation
from headcount.reports.pruning_order import PruningOrder, pruning_orders
from headcount.results import Analysis, Correlation, HeadRow, Matching, Signature


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
    """Compare two runs."""
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
            warnings=_warnings(one, other),
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
        warnings=_warnings(one, other),
    )


def _warnings(one: Analysis, other: Analysis) -> tuple[str, ...]:
    """A warning of treebanks that were read in different ways."""
    readings = [_reading(run) for run in (one, other)]
    if None in readings or readings[0] == readings[1]:
        return ()
    return (
        f"treebanks are read {readings[0]} in one run and {readings[1]} in the other, so that the "
        "model saw other tokens. Analyse one of them again (--as-words joins words by spaces)",
    )


def _reading(run: Analysis) -> str | None:
    """How a run read its treebanks: earlier versions always as words; None without any."""
    stated = Signature.parse(run.record.signature).get("treebank")
    if stated is None and any(name.endswith(".conllu") for name in run.record.corpora):
        return "as-words"
    return stated


def _counts(one: Analysis, other: Analysis, site: str) -> dict[str, tuple[int, int]]:
    """Number of a site's heads with each role; heads without a role come last."""
    counts = [
        Counter(role for row in run.rows if row.site == site for role in row.roles or ("none",))
        for run in (one, other)
    ]
    roles = ROLES if one.record.grid is None else IMAGE_ROLES
    return {role: (counts[0][role], counts[1][role]) for role in (*roles, "none")}


def _of_heads(run: Analysis, column: str) -> np.ndarray:
    return np.array([row.values[column] for row in run.rows])


def _of_layers(run: Analysis, column: str) -> np.ndarray:
    layers: dict[tuple[str, int], list[HeadRow]] = {}
    for row in run.rows:
        layers.setdefault(row.layer_id, []).append(row)
    return np.array([np.mean([row.values[column] for row in rows]) for rows in layers.values()])


SKIPPED = ("ablation_low", "ablation_high", "ablation_p", "positional_offset", "rare_cases")
"""Columns that are not scores of heads."""
