"""Tables of a pass: the numbers of every head, every relation, every offset.

Also facts about a run that its tables do not hold: timings and warnings.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pandas as pd
import torch

from headcount.analysis.frames import UNPLACED, looks_at_sound
from headcount.analysis.profiles import RelationNames, layers_of
from headcount.core import Head, Heads, HeadTable, no_number
from headcount.corpora import Census
from headcount.measures import (
    Positional,
    Sums,
    Syntactic,
    Totals,
    further_measures,
    measure_origin,
    numbers_of,
)
from headcount.tap import Anatomy

INTEGERS = ("positional_offset", "rare_cases")


def head_table(
    heads: Heads, totals: Totals, measures: Sequence[type[Sums]], frame_ms: float | None = None
) -> HeadTable:
    """One row per head; NaN if a measure did not apply to the layer.

    Args:
        heads: the model's heads.
        totals: the sums of a pass.
        measures: the measures that were taken.
        frame_ms: milliseconds of a frame of sound; None for sentences and images.
    """
    columns: dict[str, list[float]] = {name: [] for measure in measures for name in measure.names()}
    for measure in measures:
        for place, count in layers_of(heads):
            sums = totals.sums.get((measure, place))
            value = {} if sums is None else numbers_of(sums, count)
            if looks_at_sound(place.site, frame_ms):
                value = {name: each for name, each in value.items() if name not in UNPLACED}
            for name in measure.names():
                numbers = value.get(name, torch.full((count,), torch.nan))
                columns[name] += numbers.double().tolist()
    table = HeadTable.of(heads, columns)
    whole = {name: table.frame[name].astype("Int64") for name in INTEGERS if name in columns}
    return HeadTable(table.frame.assign(**whole))


def without_number(
    heads: Heads, frame: pd.DataFrame, totals: Totals, measures: Iterable[type[Sums]]
) -> Iterator[str]:
    """A sentence for each column of a plug-in that is NaN though its measure applied."""
    for measure in further_measures(measures):
        applied = np.array([(measure, head.layer_id) in totals.sums for head in heads])
        for name in measure.names():
            if num := int((frame[name].isna().to_numpy() & applied).sum()):
                yield no_number(name, measure_origin(measure), num, int(applied.sum()))


def without_words(measures: Iterable[type[Sums]]) -> Iterator[str]:
    """A sentence for each measure of a plug-in that lacks columns, or whose columns lack words."""
    for measure in further_measures(measures):
        what = f"the measure {measure.name or measure.__name__} of the plug-in"
        what = f"{what} {measure_origin(measure)}"
        if not measure.columns:
            yield f"{what} has no columns, so that none of its numbers is shown"
        if bare := [each.key for each in measure.entries() if not each.about]:
            yield f"{what} has no words for {', '.join(bare)}: write its columns as ColumnEntry"


def relation_table(heads: Heads, totals: Totals, named: RelationNames) -> pd.DataFrame | None:
    """One row per head, relation and direction; None if no sentence had a tree."""
    if not named.relations:
        return None
    return _table_of(heads, totals, lambda sums: sums.table(named.relations))


def link_table(heads: Heads, totals: Totals, named: RelationNames) -> pd.DataFrame | None:
    """One row per head, kind of link and direction; None if no sentence had links."""
    if not named.links:
        return None
    return _table_of(heads, totals, lambda sums: sums.table_of_links(named.links))


def _table_of(
    heads: Heads, totals: Totals, rows: Callable[[Syntactic], pd.DataFrame]
) -> pd.DataFrame | None:
    parts = []
    for place, _ in layers_of(heads):
        sums = totals.sums.get((Syntactic, place))
        if isinstance(sums, Syntactic):
            part = rows(sums)
            part.insert(0, "head", [str(Head(*place, index)) for index in part.pop("index")])
            parts.append(part)
    return pd.concat(parts, ignore_index=True) if parts else None


def offset_table(heads: Heads, totals: Totals, frame_ms: float | None = None) -> pd.DataFrame:
    """Rows `head offset share`: the offset profile of every head, at offsets that occur."""
    rows = []
    for place, count in layers_of(heads):
        if looks_at_sound(place.site, frame_ms):
            continue
        sums = totals.sums.get((Positional, place))
        shares = sums.shares() if isinstance(sums, Positional) else torch.zeros(count, 1)
        for index, bin_ in (shares > 0).nonzero().tolist():
            offset = bin_ - shares.shape[-1] // 2
            rows.append((str(Head(*place, index)), offset, float(shares[index, bin_])))
    return pd.DataFrame(rows, columns=["head", "offset", "share"])


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
