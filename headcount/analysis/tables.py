"""Tables: turn sums into the numbers of every head, every relation, every offset."""

from collections.abc import Sequence

import pandas as pd
import torch

from headcount.analysis.streaming import Totals
from headcount.core import SITES, Head, Heads, HeadTable, LayerId
from headcount.measures import Positional, Sums, Syntactic

INTEGERS = ("positional_offset", "rare_cases")


def head_table(heads: Heads, totals: Totals, measures: Sequence[type[Sums]]) -> HeadTable:
    """One row per head; NaN if a measure did not apply to the layer."""
    columns: dict[str, list[float]] = {name: [] for measure in measures for name in measure.columns}
    for measure in measures:
        for place, count in _layers(heads):
            sums = totals.sums.get((measure, place))
            value = {} if sums is None else sums.value()
            for name in measure.columns:
                numbers = value.get(name, torch.full((count,), torch.nan))
                columns[name] += numbers.double().tolist()
    table = HeadTable.of(heads, columns)
    whole = {name: table.frame[name].astype("Int64") for name in INTEGERS if name in columns}
    return HeadTable(table.frame.assign(**whole))


def relation_table(heads: Heads, totals: Totals, relations: tuple[str, ...]) -> pd.DataFrame | None:
    """One row per head, relation and direction; None if no sentence had a tree."""
    parts = []
    for place, _ in _layers(heads):
        sums = totals.sums.get((Syntactic, place))
        if isinstance(sums, Syntactic):
            part = sums.table(relations)
            part.insert(0, "head", [str(Head(*place, index)) for index in part.pop("index")])
            parts.append(part)
    return pd.concat(parts, ignore_index=True) if parts else None


def offset_table(heads: Heads, totals: Totals) -> pd.DataFrame:
    """Rows `head offset share`: the offset profile of every head, at offsets that occur."""
    rows = []
    for place, count in _layers(heads):
        sums = totals.sums.get((Positional, place))
        shares = sums.shares() if isinstance(sums, Positional) else torch.zeros(count, 1)
        for index, bin_ in (shares > 0).nonzero().tolist():
            offset = bin_ - shares.shape[-1] // 2
            rows.append((str(Head(*place, index)), offset, float(shares[index, bin_])))
    return pd.DataFrame(rows, columns=["head", "offset", "share"])


def _layers(heads: Heads) -> list[tuple[LayerId, int]]:
    return [
        (LayerId(site, layer), count)
        for site in SITES
        for layer, count in enumerate(heads.counts.get(site, ()))
    ]
