"""The section on word alignment: which heads link words to their translations."""

from dataclasses import dataclass
from typing import final

from headcount.reports import numbers
from headcount.reports.head_relations_text import best_aligner
from headcount.reports.page.section import Section
from headcount.results import AlignmentRow, Analysis

SHOWN = 8
"""Number of heads that are listed."""


@final
@dataclass(frozen=True)
class LinkLine:
    """One line of the table: a head, a layer or another aligner."""

    name: str
    is_head: bool
    quantity: str
    direction: str
    error: str
    interval: str
    precision: str
    recall: str


@final
@dataclass(frozen=True)
class AlignmentView:
    """The section."""

    lede: str
    lines: tuple[LinkLine, ...]
    """Other aligners, then the heads and the layer with the lowest error rates."""


def section(run: Analysis) -> Section | None:
    """The section on word alignment; None without one."""
    if run.alignment is None:
        return None
    found, record = run.alignment, run.alignment.record
    rows = [*found.ranked("aligner"), *found.ranked()[:SHOWN], *found.ranked("layer")[:1]]
    counts = (
        f"{numbers.count(record.pairs)} pairs with {numbers.count(record.sure)} sure and "
        f"{numbers.count(record.possible)} possible links."
    )
    view = AlignmentView(f"{best_aligner(found)} {counts}".strip(), tuple(map(_line, rows)))
    title = "Which heads link words to their translations"
    return Section("alignment", title, "translations", "_alignment.html.j2", view)


def _line(row: AlignmentRow) -> LinkLine:
    return LinkLine(
        name=row.head,
        is_head=row.level == "head",
        quantity=row.quantity,
        direction=row.direction,
        error=f"{row.aer:.3f}",
        interval=f"{row.aer_low:.3f} to {row.aer_high:.3f}",
        precision=numbers.percent(row.precision),
        recall=numbers.percent(row.recall),
    )
