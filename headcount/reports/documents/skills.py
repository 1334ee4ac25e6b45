"""What skills show: the best heads, what is found without them, and which of them are the same."""

from collections.abc import Iterator
from math import isnan

from headcount.core import Document, Heading, Table, Text, amount
from headcount.results import Skills

SHOWN = 15
"""Number of heads in a table."""


def skills_document(found: Skills) -> Document:
    """The document of skills."""
    record, (dense, *_) = found.record, found.recalls
    first = " ".join(record.first) or "one more random token"
    return Document(
        "What the heads of a language model do",
        (
            Text(
                f"{record.model} finds {dense.recall:.0%} of what the needles say, and "
                f"{dense.exact:.0%} of {amount(dense.needles, 'needle')} exactly "
                f"({dense.exact_low:.0%} to {dense.exact_high:.0%})."
            ),
            Heading("Needles found without some heads"),
            Text(
                "Heads that retrieve were chosen on the other half of the needles. Intervals are "
                "over needles."
            ),
            Table.of(
                ("zeroed", "heads", "found exactly", "95 %", "share of the answer"),
                (
                    (
                        row.removed,
                        str(row.heads),
                        f"{row.exact:.0%}",
                        f"{row.exact_low:.0%} to {row.exact_high:.0%}",
                        f"{row.recall:.0%}",
                    )
                    for row in found.recalls
                ),
                "Needles found without some heads",
            ),
            Heading("The best heads"),
            Text(
                "retrieval: share of an answer that the head copies, over the needles that were "
                "found; a retrieval head has 0.1 or more. The others are weights on repeated "
                f"random tokens behind {first}."
            ),
            Table.of(
                ("head", "retrieval", "halves", "induction", "duplicate token", "previous token"),
                _best(found),
                "The heads with the largest scores of retrieval",
            ),
            Heading("Which of the best heads are the same"),
            Table.of(
                ("best by", "best by", "shared", "by chance"),
                (
                    (each.one, each.other, f"{each.shared} of {each.heads}", f"{each.expected:.1f}")
                    for each in record.overlaps
                ),
                "Heads that two scores share",
            ),
        ),
    )


def _best(found: Skills) -> Iterator[tuple[str, ...]]:
    """The heads that retrieve most, or that look most at earlier copies if nothing was found."""
    is_known = not any(isnan(row.retrieval) for row in found.heads)
    order = sorted(
        found.heads, key=lambda row: row.retrieval if is_known else row.induction, reverse=True
    )
    for row in order[:SHOWN]:
        yield (
            row.head,
            _mean(row.retrieval, row.retrieval_low, row.retrieval_high),
            ""
            if isnan(row.retrieval)
            else f"{row.retrieval_first:.2f}, {row.retrieval_second:.2f}",
            _mean(row.induction, row.induction_low, row.induction_high),
            _mean(row.duplicate_token, row.duplicate_token_low, row.duplicate_token_high),
            _mean(row.previous_token, row.previous_token_low, row.previous_token_high),
        )


def _mean(mean: float, low: float, high: float) -> str:
    return "not measured" if isnan(mean) else f"{mean:.2f} ({low:.2f} to {high:.2f})"
