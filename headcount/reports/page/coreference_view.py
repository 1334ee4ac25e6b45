"""The section on coreference: which heads point from a mention at its antecedent."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from headcount.reports import numbers
from headcount.reports.head_relations_text import coreference_sentence
from headcount.reports.page.section import Section
from headcount.results import Analysis, ChosenHead, CoreferenceRow

SHOWN = 5
"""Number of heads in the table of all documents."""


@final
@dataclass(frozen=True)
class AntecedentLine:
    """One line of a table: a head and its baselines."""

    kind: str
    head: str
    accuracy: str
    interval: str
    cases: str
    baselines: tuple[str, ...]
    """Accuracies of the nearest mention, head match and rules."""


@final
@dataclass(frozen=True)
class CoreferenceView:
    """The section."""

    lede: str
    halves: tuple[AntecedentLine, ...]
    """The best head of one half of the documents on the other half, by kind of mention."""
    heads: tuple[AntecedentLine, ...]
    """The heads with the highest accuracy on all documents."""
    warnings: tuple[str, ...]


def section(run: Analysis) -> Section | None:
    """The section on coreference; None without antecedent selection."""
    if run.coreference is None:
        return None
    record = run.coreference.record
    counts = (
        f"{numbers.count(record.cases)} mentions in {numbers.count(record.documents)} documents "
        "have an antecedent in reach."
    )
    view = CoreferenceView(
        lede=f"{coreference_sentence(run.coreference)} {counts}".strip(),
        halves=_lines(record.best),
        heads=_lines(run.coreference.ranked()[:SHOWN]),
        warnings=record.warnings,
    )
    title = "Which heads point at antecedents"
    return Section("coreference", title, "antecedents", "_coreference.html.j2", view)


def _lines(rows: Sequence[ChosenHead | CoreferenceRow]) -> tuple[AntecedentLine, ...]:
    return tuple(
        AntecedentLine(
            row.kind,
            row.head,
            numbers.percent(row.accuracy),
            f"{numbers.percent(row.low)} to {numbers.percent(row.high)}",
            numbers.count(row.cases),
            tuple(map(numbers.percent, (row.nearest, row.head_match, row.rules))),
        )
        for row in rows
    )
