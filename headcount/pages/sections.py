"""The sections of the page of an analysis, and the documents of results, by the manifests.

To add one, name it in the manifest of its capability (`headcount.core.Section`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from headcount.core import (
    Document,
    InputError,
    Table,
    amount,
    capabilities,
    capability_of,
    imported,
)
from headcount.pages.names import columns_of
from headcount.results import Analysis, HeadRow, Result
from headcount.vocabulary import ColumnEntry


@final
@dataclass(frozen=True)
class PageSection:
    """One section below the map, with its entry in the contents list."""

    key: str
    """Id of the section, which links end in."""
    short: str
    """Name in the contents list."""
    view: Document
    """What it shows, under its title."""


def heads_document(heads: Sequence[HeadRow], columns: Sequence[ColumnEntry]) -> Document:
    """Every number of some heads, in columns that a record may describe."""
    rows = (
        (row.head, ", ".join(row.roles), *(each.show(row.values[each.key]) for each in columns))
        for row in heads
    )
    headers = ("head", "roles", *(each.label for each in columns))
    abouts = ("", "", *(each.about for each in columns))
    title = f"Table of all {amount(len(heads), 'head')}"
    table = Table.of(headers, rows, title, is_detail=True, abouts=abouts)
    return Document("All numbers", (table,))


def has_document(found: Result[Any]) -> bool:
    """Whether a result has a document, as those of commands have."""
    its = capability_of(type(found))
    return its is not None and bool(its.document)


def document_of(found: Result[Any], roles: Mapping[str, Sequence[str]] | None = None) -> Document:
    """What a result shows, with its warnings and signature.

    Args:
        found: the result.
        roles: the roles of every head, for documents that show them (of clusters and curves).

    Raises:
        InputError: for a result without a document.
    """
    its = capability_of(type(found))
    if its is None or not its.document:
        raise InputError(f"Expected a result of a command, got a {type(found).__name__}.")
    given = (roles,) if its.takes_roles else ()
    shown: Document = imported(its.document)(found, *given)
    return shown.ending(found.record.warnings, found.record.signature)


def numbers_shown(run: Analysis) -> Document:
    """Every number of every head."""
    return heads_document(run.rows, columns_of(run))


def sections_of(run: Analysis) -> tuple[PageSection, ...]:
    """The sections for which the run holds something, in their order."""
    listed = ((its, section) for its in capabilities() for section in its.sections)
    found = []
    for its, section in sorted(listed, key=lambda pair: pair[1].place):
        if section.document:
            shown = imported(section.document)(run)
        else:
            beside = run.of(its.result_type)
            roles = {row.head: row.roles for row in run.rows}
            shown = None if beside is None else document_of(beside, roles)
        if shown is not None:
            found.append(PageSection(section.key, section.short, shown))
    return tuple(found)
