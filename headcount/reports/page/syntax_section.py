"""The section on syntax: a head for each relation."""

from dataclasses import dataclass
from typing import final

from headcount.reports.page.section import Section
from headcount.reports.relation_view import RelationTable, relation_table
from headcount.reports.syntax_view import TestedSyntax, syntax_of
from headcount.results import Analysis


@final
@dataclass(frozen=True)
class Syntax:
    """Relations as they were tested; of a run without profiles, on the whole corpus."""

    tested: TestedSyntax | None
    """Relations on the half of the corpus that chose nothing; None without profiles."""
    table: RelationTable | None
    """Relations on the whole corpus, of a run without profiles."""


def section(run: Analysis) -> Section | None:
    """The section on syntax; None without trees."""
    tested = syntax_of(run)
    table = None
    if run.relation_rows and run.traits is None:
        table = relation_table(run.relation_rows, run.null_relation_rows, run.record.thresholds)
    if tested is None and table is None:
        return None
    title = "Syntax: a head for each relation"
    return Section("syntax", title, "syntax", "_syntax.html.j2", Syntax(tested, table))
