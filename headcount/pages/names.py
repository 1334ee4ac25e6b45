"""Names of sites, and the columns of a table of heads with those of the scores."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import final

from headcount.pages.part import page_parts
from headcount.results import Analysis
from headcount.vocabulary import ColumnEntry, plain

SITE_TITLES: Mapping[str, str] = {
    "encoder.self": "Encoder self-attention",
    "decoder.self": "Decoder self-attention",
    "decoder.cross": "Decoder attention to the encoder",
    "vision.self": "Vision self-attention",
}
"""Titles of the grids."""


def _of_parts() -> dict[str, ColumnEntry]:
    """The columns of scores, the measured effect first."""
    return {column.key: column for part in page_parts() for column in part.columns()}


@final
class _Columns(Mapping[str, ColumnEntry]):
    """The columns of scores and measures, which are imported when the first one is looked up."""

    @cached_property
    def _every(self) -> dict[str, ColumnEntry]:
        from headcount.measures import MEASURED  # only here: it imports torch

        return {**_of_parts(), **MEASURED}

    def __getitem__(self, key: str) -> ColumnEntry:
        return self._every[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._every)

    def __len__(self) -> int:
        return len(self._every)


MEASURES: Mapping[str, ColumnEntry] = _Columns()
"""Every number column of `heads.parquet`, in the order of the report: worth comes first."""


def known(stored: Iterable[ColumnEntry]) -> Mapping[str, ColumnEntry]:
    """`MEASURES`, with columns of plug-ins whose words a run stores, after those of our scores."""
    return {**_of_parts(), **{each.key: each for each in stored}, **MEASURES}


def measures(columns: Iterable[str], stored: Iterable[ColumnEntry] = ()) -> list[ColumnEntry]:
    """The measures among the columns of a head table; an unknown column is labelled by its name.

    Args:
        columns: names of the columns.
        stored: columns of plug-ins, which a run stores.
    """
    named = {key: each for key, each in known(stored).items() if key in set(columns)}
    for key in columns:
        if key not in named:
            named[key] = plain(key)
    return list(named.values())


def columns_of(run: Analysis) -> list[ColumnEntry]:
    """The measures of a run, in the words of what its heads look at."""
    found = measures(run.measures, run.stored_columns)
    return [
        replace(each, **{name: heard(getattr(each, name), run) for name in _SPOKEN})
        for each in found
    ]


_SPOKEN = ("label", "about", "rests")
"""The words of a column that name what heads look at."""


def heard(text: str, run: Analysis) -> str:
    """Words on tokens, for frames, too, if the run is on sound: its encoder reads frames."""
    if (frame_ms := run.record.frame_ms) is None:
        return text
    words = {
        "separator tokens": "the silence behind the sound",
        "separators": "silence",
        "in tokens": f"in frames of {frame_ms:g} ms or tokens",
        "tokens": "frames or tokens",
        "token": "frame or token",
    }
    found = re.sub(rf"\b({'|'.join(words)})\b", lambda its: words[its[0].lower()], text, flags=re.I)
    return found[:1].upper() + found[1:] if text[:1].isupper() else found
