"""What a pruned model adds to the page of the dense one: its loss, and the heads that it keeps.

Its section holds which heads the pruned model keeps, and every number before and after.
"""

from collections.abc import Iterable
from typing import final

from headcount import numbers
from headcount.artifact.card import measured_blocks
from headcount.artifact.verdict import (
    cost_lines,
    finding,
    is_measured,
    load_it,
    units_of,
    verdict_facts,
)
from headcount.core import Block, Document, Heading, Text, Warned
from headcount.pages import Keeping, PagePart, kept_table
from headcount.results import Analysis, PruneRecord, pruned_warnings


def _pruned_answer(run: Analysis) -> str:
    """How many heads were pruned at which loss, for the opening; empty without a pruned model."""
    record = run.pruned
    if record is None:
        return ""
    lines = [f"{word}: {text}." for word, text in cost_lines(record)]
    return " ".join([_opening(record), *lines])


def _opening(record: PruneRecord) -> str:
    verb = "was" if len(record.pruned) == 1 and not record.neurons else "were"
    by = "" if record.choice is None else f", chosen by {record.choice.method_used}"
    opening = f"{units_of(record, 'pruned')} {verb} pruned{by}."
    if not record.trained_on:
        return opening
    updates = numbers.of(record.trained_on, "update", "updates")
    return f"{opening} Then the model was trained for {updates} with the dense one as teacher."


def _pruned(run: Analysis) -> tuple[Keeping, ...]:
    if run.pruned is None:
        return ()
    by = "" if run.pruned.choice is None else f", chosen by {run.pruned.choice.method_used}"
    kept = numbers.count(len(run.pruned.kept))
    about = f"The pruned model keeps {kept} of {numbers.of(len(run.rows), 'head', 'heads')}{by}."
    return (Keeping("pruned", kept, about, "pruned model", run.pruned.kept),)


@final
class _PrunedPart(PagePart):
    """What was pruned at which loss, and the heads that are kept."""

    def first(self, run: Analysis) -> tuple[str, tuple[Block, ...]]:
        """How much smaller, faster and worse the pruned model is, if all of that was measured."""
        record = run.pruned
        if record is None or not is_measured(record):
            return super().first(run)
        return finding(record), (verdict_facts(record), *load_it(record))

    def answers(self, run: Analysis) -> Iterable[tuple[str, str]]:
        """How many heads were pruned at which loss."""
        told = run.pruned is not None and is_measured(run.pruned)
        return () if told else (("Pruned", _pruned_answer(run)),)

    def keepings(self, run: Analysis) -> Iterable[Keeping]:
        """The heads that the pruned model keeps."""
        return _pruned(run)


PART = _PrunedPart()


def pruned_document(run: Analysis) -> Document | None:
    """The document of the pruned model; None unless one was named."""
    record = run.pruned
    if record is None:
        return None
    opened = () if is_measured(record) else (verdict_facts(record), *load_it(record))
    return Document(
        "Before and after pruning",
        (
            Text(_opening(record), "lede"),
            *opened,
            *measured_blocks(record),
            Heading("Which functions survive"),
            Text("Number of heads by what leads them in the dense model."),
            kept_table(run, {"pruned": record.kept}),
            *map(Warned, (*record.warnings, *pruned_warnings(run.record, record))),
        ),
    )
