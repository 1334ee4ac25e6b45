"""Names of sites, and the columns of a table of heads with those of the scores."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import final

from headcount.pages.part import page_parts
from headcount.results import Analysis
from headcount.vocabulary import ABLATION, ColumnEntry, plain

SITE_TITLES: Mapping[str, str] = {
    "encoder.self": "Encoder self-attention",
    "decoder.self": "Decoder self-attention",
    "decoder.cross": "Decoder attention to the encoder",
    "vision.self": "Vision self-attention",
}
"""Titles of the grids."""


@final
class _Columns(Mapping[str, ColumnEntry]):
    """The columns of scores and measures, which are imported when the first one is looked up."""

    @cached_property
    def _every(self) -> dict[str, ColumnEntry]:
        from headcount.measures import MEASURED  # only here: it imports torch

        scores = {column.key: column for part in page_parts() for column in part.columns()}
        return {**ABLATION, **scores, **MEASURED}

    def __getitem__(self, key: str) -> ColumnEntry:
        return self._every[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._every)

    def __len__(self) -> int:
        return len(self._every)


MEASURES: Mapping[str, ColumnEntry] = _Columns()
"""Every number column of `heads.parquet`, in the order of the report: worth comes first."""


def measures(
    columns: Iterable[str], further: Mapping[str, ColumnEntry] | None = None
) -> list[ColumnEntry]:
    """The measures among the columns of a head table; an unknown column is labelled by its name.

    Args:
        columns: names of the columns.
        further: columns of plug-ins, which a record has.
    """
    named = {key: measure for key, measure in MEASURES.items() if key in set(columns)}
    for key in columns:
        if key not in named:
            named[key] = (further or {}).get(key) or plain(key)
    return list(named.values())


def columns_of(run: Analysis) -> list[ColumnEntry]:
    """The measures of a run."""
    return measures(run.measures, run.record.column_entries)
