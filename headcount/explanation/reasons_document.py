"""What an explanation shows of reasons: where the best heads look, and what made them do so."""

from collections.abc import Iterator, Sequence

from headcount.core import Block, Heading, Table, Text, sorted_by
from headcount.explanation.prompts import REPEATED, RIVAL, TARGET
from headcount.explanation.result import Explained, LookRow, ReasonRow
from headcount.numbers import nats, within
from headcount.results import select

NAMED = 3
"""Largest number of writers of a query, and of a key, that are named."""
SENTENCES = 5
"""Number of heads of which a sentence says why they look where they look."""
HARDLY = 0.05
"""Weight below which a head hardly looks at a token."""
LEAST = 0.005
"""Least size of a term that a table names."""
SPOKEN = 0.1
"""Least share of a score above its mean that a writer adds which a sentence names."""


def reason_blocks(found: Explained) -> Iterator[Block]:
    """Where the best heads look, and the largest terms of their scores."""
    if not found.looks:
        return
    yield Heading("Why heads look there")
    yield Text(
        "A score is a sum over what wrote the query (of the token where the prediction is made) "
        "and what wrote the key (of the token with the largest weight, the first token aside), "
        "with the scales of norms kept. From each term its mean over the visible keys is "
        "subtracted, since a term that all keys share changes no weight. The terms of all writers "
        "of a query add up to the score's excess over its mean, and so do those of a key."
    )
    for row in found.looks[:SENTENCES]:
        yield Text(reason(found, row))
    yield reasons_table(found)


def reason(found: Explained, row: LookRow) -> str:
    """Why a head looks where it looks, in a sentence."""
    number = len(found.prompts)
    if row.weight < HARDLY:
        return (
            f"{row.head} hardly looks at any token but the first from there (the largest weight is "
            f"{row.weight:.2f}); --query WORD asks from where else it looks."
        )
    where = looked_at(row, number)
    if row.value <= 0:
        return (
            f"{row.head} looks at {where} although its score there is {nats(-row.value)} below the "
            "mean of the keys."
        )
    sides = [(select(found.reasons, head=row.head, key=""), "query")]
    sides += [(select(found.reasons, head=row.head, query=""), "key")]
    said = [
        f"{_listed(largest, side)} wrote to the {side}"
        for rows, side in sides
        if (largest := _spoken(rows, row.value))
    ]
    since = f" since {', and '.join(said)}" if said else ""
    above = within(row.value, row.low, row.high)
    said = f"{row.head} looks at {where}{since}."
    return f"{said} Its score there is {above} above the mean of the keys."


def looked_at(row: LookRow, number: int) -> str:
    """The word that a head looks at, and in how many prompts."""
    if number > 1 and 2 * row.prompts <= number:
        return "another word in most prompts"
    word, _, which = row.looks_at.partition(REPEATED)
    word = f"the {word}" if word in (TARGET, RIVAL) and number > 1 else f"“{word}”"
    word = f"the {which} mention of {word}" if which else word
    return word if number == 1 else f"{word} ({row.prompts} of {number} prompts)"


def _spoken(rows: Sequence[ReasonRow], whole: float) -> list[ReasonRow]:
    """The writers that raise a score most."""
    rows = [row for row in rows if row.value >= SPOKEN * whole]
    return sorted_by(rows, lambda row: row.value, descending=True)[:NAMED]


def _listed(rows: Sequence[ReasonRow], side: str) -> str:
    names = [f"{getattr(row, side)} ({nats(row.value, '+')})" for row in rows]
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def reasons_table(found: Explained) -> Table:
    """The largest terms of the score of each head."""

    def largest(rows: Sequence[ReasonRow]) -> str:
        rows = sorted_by(rows, lambda row: abs(row.value), descending=True)[:NAMED]
        terms = (
            f"{' × '.join(filter(None, [row.query, row.key]))} {nats(row.value, '+')}"
            for row in rows
            if abs(row.value) >= LEAST
        )
        return ", ".join(term.replace(" ", "\N{NO-BREAK SPACE}") for term in terms)

    def cells(head: str) -> Iterator[str]:
        yield largest(select(found.reasons, head=head, key=""))
        yield largest(select(found.reasons, head=head, query=""))
        yield largest([row for row in select(found.reasons, head=head) if row.query and row.key])

    return Table.of(
        ("head", "looks at", "weight", "score above mean", "query by", "key by", "both by"),
        (
            (
                *(row.head, looked_at(row, len(found.prompts)), f"{row.weight:.2f}"),
                within(row.value, row.low, row.high),
                *cells(row.head),
            )
            for row in found.looks
        ),
        "What wrote queries and keys",
    )
