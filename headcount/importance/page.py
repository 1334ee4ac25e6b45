"""What scores of heads add to the page of an analysis: their columns, and how they are measured."""

from collections.abc import Iterable
from typing import final

from headcount.core import capital
from headcount.importance.folder import Assessment
from headcount.importance.options import OWN_COLUMNS, SCORES
from headcount.pages import Note, PagePart
from headcount.results import Analysis
from headcount.vocabulary import ColumnEntry

WORTH_NOTES = (
    *(
        Note(capital(each.column.label), each.definition, each.column.source)
        for each in (SCORES[name] for name in dict.fromkeys(("ablation", *SCORES.own)))
    ),
    Note(
        "Agreement",
        "Spearman's rank correlation over heads; intervals by Fisher's z with the "
        "variance of Bonett and Wright. Heads without a number are excluded, pair by pair.",
        "Bonett and Wright, Psychometrika 2000, doi.org/10.1007/BF02294183",
    ),
)
"""Definitions and references for the importance scores."""


def assessment_notes(found: Assessment) -> list[Note]:
    """How the scores of an assessment are measured, those of plug-ins last."""
    own = [
        Note(capital(each.column.label), each.definition, each.column.source)
        for each in (SCORES[name] for name in dict.fromkeys(("ablation", *SCORES.own)))
        if each.column.key in found.columns
    ]
    return [*own, *(Note(each.label, each.about, each.source) for each in found.stored_columns)]


@final
class ImportancePart(PagePart):
    """The columns and notes of all scores."""

    def columns(self) -> Iterable[ColumnEntry]:
        """The columns of all our scores, the measured effect first."""
        return OWN_COLUMNS

    def notes(self, run: Analysis) -> Iterable[Note]:
        """How scores are measured, if any was."""
        return WORTH_NOTES if run.importance else ()


PART = ImportancePart()
