"""What a terminal shows of an explanation: what a reader wants first, on one screen."""

from collections.abc import Iterator

from headcount.core import Block, Document, Table, Text, Warned
from headcount.explanation.circuits_document import smallest
from headcount.explanation.document import how, written_table
from headcount.explanation.opening import extremes, lede, ranked, title
from headcount.explanation.reasons_document import reason
from headcount.explanation.result import EffectRow, Explained
from headcount.explanation.together_document import (
    FEW,
    chosen_words,
    few_together,
    preferred_words,
    together_table,
    words_of,
)
from headcount.numbers import nats, within
from headcount.results import Signature

REASONS = 2
"""Number of heads of which a screen says why they look where they look."""


def explanation_summary(found: Explained) -> Document:
    """The prediction, the best heads and their evidence, several together, and where they look.

    `document_of` has all effects, heads and prompts.
    """
    blocks = (
        *map(Warned, found.record.warnings),
        Text(lede(found), "lede"),
        Text(how(found)),
        _heads(found),
        *([written_table(found, FEW)] if found.written else []),
        *(Text(reason(found, row)) for row in found.looks[:REASONS]),
        *_together(found),
        Text(_looks(found)),
        *([Text(smallest(found))] if found.areas else []),
    )
    return Document(title(found), blocks).ending(found.record.warnings, found.record.signature)


def _heads(found: Explained) -> Table:
    """The largest heads by the first effect, and the one that raises most by each other.

    What the second prompt's patching is estimated to be is left out where it was measured.
    """
    names = [
        name for name in found.measured if name != "estimate" or "corrupt" not in found.measured
    ]
    columns = [(name, found.of(name)) for name in names]
    first, *others = names
    named = {row.part for each in others for row in extremes(found, each)[0][:1]}
    rows = ranked(found, first)
    rows = rows[:FEW] + [row for row in rows[FEW:] if row.part in named]

    def cell(name: str, row: EffectRow) -> str:
        return within(row.value, row.low, row.high) if name == first else nats(row.value)

    return Table.of(
        ("head", *(words_of(found, name).label for name, _ in columns)),
        ((row.part, *(cell(name, each[row.part]) for name, each in columns)) for row in rows),
        "The heads with the largest effects",
    )


def _together(found: Explained) -> Iterator[Block]:
    """The best few heads together, beside random ones."""
    if not found.joint:
        return
    yield Text(chosen_words(found))
    yield Text(preferred_words(found))
    yield together_table(found, few_together(found))


def _looks(found: Explained) -> str:
    """What is lost if no head sees a word, or why that was not measured."""
    asked = Signature.parse(found.record.signature)
    if found.layers:
        every = max(found.layers, key=lambda row: row.last - row.first)
        most = max(
            (row for row in found.layers if row.first == row.last), key=lambda row: abs(row.value)
        )
        other = "" if asked.get("key") else " --key WORD hides another word."
        return (
            f"Where they look: if no head can look {found.record.looks}, "
            f"{within(every.value, every.low, every.high)} nats are lost; of single layers, layer "
            f"{most.first} has the largest effect ({nats(most.value, '+')}).{other}"
        )
    lacking = [row.target for row in found.prompts if row.target.strip() not in row.prompt]
    if asked.get("effects") or found.record.kind == "classification" or not lacking:
        return ""
    return (
        f"Where they look was not measured, since the target “{lacking[0].strip()}” is not in the "
        "prompt. --key WORD hides a word of it from the heads."
    )
