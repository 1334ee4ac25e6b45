"""A document as a self-contained page of its own, beside its Markdown or where there is none."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headcount.core import Document, write_text
from headcount.reports.page.assets import fill_template
from headcount.reports.page.heads_view import heads_section
from headcount.reports.page.html import swatches
from headcount.reports.sentences import model_and_data
from headcount.results import HeadRow, Record, Result
from headcount.vocabulary import ROLES, TRAITS


def write_page(
    path: Path, document: Document, record: Record, rows: Sequence[HeadRow] = ()
) -> None:
    """Write the page of a document.

    Args:
        path: its file.
        document: what it shows.
        record: the record of what was measured, which names the model and the data.
        rows: heads of which it shows every number below.
    """
    model, data = model_and_data(record)
    page = fill_template(
        "document.html.j2",
        styles=("base.css", "sections.css"),
        scripts=("elements.js", "table.js"),
        data={},
        title=document.title,
        by=record.COMMAND,
        model=model,
        data_names=data,
        document=document,
        sections=(heads_section(rows),) if rows else (),
        swatches=swatches(TRAITS.values(), ROLES.values()),
    )
    write_text(path, page)


def write_documents(
    found: Result[Any],
    document: Document,
    folder: Path,
    formats: Sequence[str] = ("svg", "png", "pdf"),
) -> None:
    """Write the document of a result as Markdown, with its figures, and as a page.

    Args:
        found: the result.
        document: what it shows.
        folder: folder of the result.
        formats: formats of the figures.
    """
    document.write(folder / found.DOCUMENTS[0], formats)
    write_page(folder / found.DOCUMENTS[1], document, found.record)
