"""Names of sites, and the columns of a table of heads with those of the scores."""

from collections.abc import Iterable, Mapping

from headcount import numbers
from headcount.importance import SCORES
from headcount.vocabulary import COLUMNS, WORTH, ColumnEntry

SITE_TITLES: Mapping[str, str] = {
    "encoder.self": "Encoder self-attention",
    "decoder.self": "Decoder self-attention",
    "decoder.cross": "Decoder attention to the encoder",
    "vision.self": "Vision self-attention",
}
"""Titles of the grids."""


_SCORES = {column.key: column for each in SCORES.values() for column in each.columns()}
_WORTH = {key: each for key, each in COLUMNS.items() if each.group == WORTH}

MEASURES: Mapping[str, ColumnEntry] = {**_WORTH, **_SCORES, **COLUMNS}
"""Every number column of `heads.parquet`, in the order of the report: worth comes first."""


def measures(columns: Iterable[str]) -> list[ColumnEntry]:
    """The measures among the columns of a head table; an unknown column is labelled by its name."""
    named = {key: measure for key, measure in MEASURES.items() if key in set(columns)}
    for key in columns:
        if key not in named:
            named[key] = ColumnEntry(key, key.replace("_", " "), "Other", "", numbers.weight)
    return list(named.values())
