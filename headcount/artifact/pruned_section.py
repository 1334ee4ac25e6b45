"""What pruning left: which heads a pruned model keeps, and every number before and after."""

from headcount.artifact.card import measured_blocks
from headcount.artifact.page import pruned_answer
from headcount.core import Document, Heading, Text, Warned
from headcount.pages import kept_table
from headcount.results import (
    Analysis,
    pruned_warnings,
)


def pruned_document(run: Analysis) -> Document | None:
    """The document of the pruned model; None unless one was named."""
    record = run.pruned
    if record is None:
        return None
    return Document(
        "Before and after pruning",
        (
            Text(pruned_answer(run), "lede"),
            *measured_blocks(record),
            Heading("Which functions survive"),
            Text("Number of heads by what leads them in the dense model."),
            kept_table(run, {"pruned": record.kept}),
            *map(Warned, (*record.warnings, *pruned_warnings(run.record, record))),
        ),
    )
