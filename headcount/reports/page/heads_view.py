"""The table of all heads: one row a head, one column a measured number."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from headcount.reports.names import measures
from headcount.reports.page.section import Section
from headcount.results import Analysis, HeadRow
from headcount.vocabulary import ColumnEntry

MANY = 400
"""Number of heads above which the page holds no table; its script makes it when it is opened."""


@final
@dataclass(frozen=True)
class HeadsTable:
    """The table."""

    columns: tuple[ColumnEntry, ...]
    rows: tuple[tuple[str, str, tuple[str, ...]], ...]
    """Head, roles and the texts of its numbers; of many heads, the page's script adds them."""
    num_heads: int


def section(run: Analysis) -> Section:
    """The section with the table of all heads."""
    return heads_section(run.rows, len(run.rows) <= MANY)


def heads_section(heads: Sequence[HeadRow], is_filled: bool = True) -> Section:
    """The section with the table of some heads, filled now or when it is opened."""
    columns = tuple(measures(heads[0].values))
    rows = tuple(
        (row.head, ", ".join(row.roles), tuple(c.show(row.values[c.key]) for c in columns))
        for row in heads
        if is_filled
    )
    view = HeadsTable(columns, rows, len(heads))
    return Section("numbers", "All numbers", "all numbers", view, "_heads.html.j2")
