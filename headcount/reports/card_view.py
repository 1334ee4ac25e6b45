"""The card of one head: everything the report says about it, as short texts and few numbers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import pandas as pd

from headcount.reports import numbers
from headcount.reports.example_view import ExampleView, example_view
from headcount.reports.measure_names import SITE_TITLES, measures
from headcount.reports.read import Evidence, Run
from headcount.reports.relation_view import RelationScore, best_of_head
from headcount.reports.sentences import head_line

MAX_OFFSET = 10
"""Offsets further away are lumped on either side."""


@final
@dataclass(frozen=True)
class Share:
    """One bar, or a pair of bars where `norm` is measured."""

    label: str
    value: float | None
    text: str
    norm: float | None = None
    norm_text: str = ""


@final
@dataclass(frozen=True)
class Number:
    """One line of the list of all numbers."""

    label: str
    about: str
    text: str
    null_text: str


@final
@dataclass(frozen=True)
class Card:
    """All that is shown of one head."""

    head: str
    title: str
    roles: tuple[Evidence, ...]
    line: str
    offsets: tuple[float, ...]
    """Shares: further left, -10 ... 10, further right."""
    relations: tuple[RelationScore, ...]
    sinks: tuple[Share, ...]
    patterns: tuple[Share, ...]
    rare: str
    numbers: tuple[Number, ...]
    examples: tuple[ExampleView, ...]


def cards(run: Run) -> tuple[Card, ...]:
    """One card per head, in the order of the table of heads."""
    relations = {}
    if run.relations is not None:
        relations = best_of_head(run.relations, run.null_relations)
    null: dict[Any, dict] = {}
    if run.null_heads is not None:
        null = run.null_heads.set_index("head").to_dict("index")
    offsets = {str(head): rows for head, rows in run.offsets.groupby("head", sort=False)}
    return tuple(
        Card(
            head=row["head"],
            title=f"{SITE_TITLES.get(row['site'], row['site'])}, layer {row['layer']}, "
            f"head {row['index']}",
            roles=run.roles[row["head"]],
            line=head_line(row),
            offsets=offset_bins(offsets.get(row["head"])),
            relations=relations.get(row["head"], ()),
            sinks=_sinks(row),
            patterns=_patterns(row),
            rare=_rare(row),
            numbers=_numbers(row, null.get(row["head"])),
            examples=tuple(example_view(e) for e in run.examples.get(row["head"], ())),
        )
        for row in run.heads.to_dict("records")
    )


def offset_bins(offsets: pd.DataFrame | None) -> tuple[float, ...]:
    """Shares of the offsets: all left of -10, each of -10 ... 10, all right of 10."""
    bins = [0.0] * (2 * MAX_OFFSET + 3)
    if offsets is not None:
        for offset, share in zip(offsets["offset"], offsets["share"], strict=True):
            place = max(-MAX_OFFSET - 1, min(MAX_OFFSET + 1, int(offset))) + MAX_OFFSET + 1
            bins[place] += float(share)
    return tuple(numbers.rounded(share, 3) or 0.0 for share in bins)


def _value(row: Mapping[Any, Any], column: str) -> float:
    return float(row.get(column, math.nan))


def _sinks(row: Mapping[Any, Any]) -> tuple[Share, ...]:
    result = []
    for key, label in (("first", "first token"), ("sep", "separators"), ("punct", "punctuation")):
        weight, norm = _value(row, f"attn_{key}"), _value(row, f"norm_{key}")
        if not math.isnan(weight):
            result.append(
                Share(label, numbers.rounded(weight), numbers.percent(weight),
                      numbers.rounded(norm), numbers.percent(norm))
            )  # fmt: skip
    return tuple(result)


def _patterns(row: Mapping[Any, Any]) -> tuple[Share, ...]:
    found = [m for m in measures(map(str, row)) if m.key.startswith("pattern_")]
    return tuple(
        Share(m.label, numbers.rounded(_value(row, m.key)), m.show(_value(row, m.key)))
        for m in found
        if not math.isnan(_value(row, m.key))
    )


def _rare(row: Mapping[Any, Any]) -> str:
    share, two = _value(row, "rare_share"), _value(row, "rare2_share")
    if math.isnan(share):
        return "Not measured: no sentence has a token outside the 500 most frequent."
    cases = numbers.count(_value(row, "rare_cases"))
    return (
        f"Points at the sentence's rarest token in {numbers.percent(share)} of {cases} queries, "
        f"at one of the two rarest in {numbers.percent(two)}."
    )


def _numbers(row: Mapping[Any, Any], null: Mapping[Any, Any] | None) -> tuple[Number, ...]:
    skipped = ("head", "site", "layer", "index", "roles")
    return tuple(
        Number(
            label=m.label,
            about=m.about,
            text=m.show(_value(row, m.key)),
            null_text="" if null is None else m.show(_value(null, m.key)),
        )
        for m in measures(str(column) for column in row if column not in skipped)
    )
