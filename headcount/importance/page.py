"""What scores of heads add to the page of an analysis: their columns, and how they are measured."""

from collections.abc import Iterable
from typing import final

from headcount.importance.options import OWN_COLUMNS, SCORES
from headcount.pages import Note, PagePart
from headcount.results import Analysis
from headcount.vocabulary import ColumnEntry

WORTH_NOTES = (
    *(
        Note(label[0].upper() + label[1:], each.definition, each.column.source)
        for each in (SCORES[name] for name in dict.fromkeys(("ablation", *SCORES.own)))
        if (label := each.column.label)
    ),
    Note(
        "Agreement",
        "Spearman's rank correlation over heads; intervals by Fisher's z with the "
        "variance of Bonett and Wright. Heads without a number are excluded, pair by pair.",
        "Bonett and Wright, Psychometrika 2000",
    ),
)
"""Definitions and references for the importance scores."""


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
