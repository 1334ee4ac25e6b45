"""Tables: turn sums into the numbers of every head, every relation, every offset.

Facts about a run that its tables do not hold: timings, versions and warnings.
"""

from collections.abc import Sequence

import pandas as pd
import torch

from headcount.analysis.streaming import Totals
from headcount.core import SITES, Head, Heads, HeadTable, LayerId
from headcount.corpora import Census
from headcount.measures import Positional, Sums, Syntactic
from headcount.tap import Anatomy

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


def timings_of(timings: dict[str, float], read: Totals) -> dict[str, float]:
    """Seconds of every step, and the rates of measuring; none if a resumed run had read all.

    Args:
        timings: the seconds.
        read: the amounts that were read in them, without those that an interrupted run read.
    """
    amounts = {"sentences_per_s": read.num_sentences, "tokens_per_s": read.num_tokens}
    seconds = max(timings["measure_s"], 1e-3)
    return timings | {name: round(each / seconds, 1) for name, each in amounts.items() if each}


def warnings_of(census: Census, max_length: int | None, anatomy: Anatomy) -> list[str]:
    """A sentence for everything that was truncated, lost or could not be measured."""
    reported = [*census.warnings(max_length), *census.arc_warnings()]
    blind = [layer.module for layer in anatomy.layers if layer.output is None]
    if blind:
        reported.append(
            f"no output projection was found for {', '.join(blind)}: norms are not measured there"
        )
    return reported
