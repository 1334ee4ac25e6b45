"""What scores of heads add to the page of an analysis: their columns, and how they are measured."""

from collections.abc import Iterable
from typing import final

from headcount.importance.options import SCORES
from headcount.pages import Note, PagePart
from headcount.results import Analysis
from headcount.vocabulary import MICHEL, ColumnEntry

WORTH_NOTES = (
    Note(
        "Ablation effect",
        "How much worse the task's loss (or score) gets when one head is "
        "removed and all others are kept; positive means that the head helps. The interval is of "
        "each head alone and inverts the head's test: the studentized bootstrap for losses, paired "
        "approximate randomization for BLEU, chrF and classes. Only the p-values are corrected "
        "over heads, by Holm's method.",
        f"{MICHEL}, section 3",
    ),
    *(
        Note(label[0].upper() + label[1:], each.definition, each.column.source)
        for each in SCORES.values()
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
        """The columns of every score."""
        return (column for each in SCORES.values() for column in each.columns())

    def notes(self, run: Analysis) -> Iterable[Note]:
        """How scores are measured, if any was."""
        return WORTH_NOTES if run.importance else ()


PART = ImportancePart()
