"""What an alignment shows: the heads and layers that link words to their translations best."""

from matplotlib.figure import Figure

from headcount.alignment.result import Alignment, AlignmentRow
from headcount.core import Chart, Document, Table, Text, amount
from headcount.numbers import ends
from headcount.pages import Note, share_map

SHOWN = {"aligner": 10, "head": 10, "layer": 3}
"""Number of rows of each level in the table."""
_HEADERS = ("head", "read from", "direction", "AER", "95 %", "precision", "recall", "accuracy")


def alignment_notes(found: Alignment) -> tuple[Note, ...]:
    """How links are read from heads, and how they are judged."""
    del found
    return (
        Note(
            "Links between words",
            "Every target word is linked to the source word with the largest weight, or with the "
            "largest norm of the weighted vector.",
            "Kobayashi et al., EMNLP 2020, arXiv:2004.10102, section 5",
        ),
        Note(
            "Alignment error rate",
            "1 - (|A and S| + |A and P|) / (|A| + |S|), with A the links, S the sure and P the "
            "possible gold links.",
            "Och and Ney, Computational Linguistics 2003, aclanthology.org/J03-1002, section 4",
        ),
    )


def alignment_document(found: Alignment) -> Document:
    """The document of an alignment."""
    record = found.record
    return Document(
        "Which heads link words to their translations",
        (
            Text(_best(found), "lede"),
            Text(
                f"{record.model}: {amount(record.pairs, 'pair')} with {record.sure:,} sure and "
                f"{amount(record.possible, 'possible link')} ({record.gold})."
            ),
            Text(
                "Every target word is linked to the source word with the largest weight. The "
                "alignment error rate (AER) lies between 0 and 1; lower is better."
            ),
            Table.of(
                _HEADERS,
                map(_cells, _rows(found)),
                "Aligners, heads and layers with the lowest error rates",
            ),
            *map(Text, record.sentences),
            Chart(
                "alignment",
                "Error rate of every head",
                lambda: alignment_map(found),
                is_detail=True,
            ),
        ),
    )


def _rows(found: Alignment) -> list[AlignmentRow]:
    """The rows with the lowest error rates of each level, read from weights or norms."""
    rows = list[AlignmentRow]()
    for level, number in SHOWN.items():
        norms = found.ranked(level, "norms") if level != "aligner" else ()
        of_level = [*found.ranked(level), *norms]
        rows += sorted(of_level, key=lambda row: row.aer)[:number]
    return rows


def _cells(row: AlignmentRow) -> list[str]:
    scores = (row.precision, row.recall, row.accuracy)
    interval = ends(row.aer_low, row.aer_high, "{:.3f}".format)
    return [
        *(row.head, row.quantity, row.direction, f"{row.aer:.3f}", interval),
        *(f"{score:.3f}" for score in scores),
    ]


def _best(found: Alignment) -> str:
    """The head with the lowest error rate, and the next one."""
    ranked = found.ranked()
    if not ranked:
        return ""
    first = ranked[0]
    text = (
        f"By its weights {first.head} links words best ({first.direction}): its error rate is "
        f"{first.aer:.3f} ({ends(first.aer_low, first.aer_high, '{:.3f}'.format)})"
    )
    if not ranked[1:]:
        return f"{text}."
    return f"{text}; the next is {ranked[1].head} with {ranked[1].aer:.3f}."


def alignment_map(alignment: Alignment) -> Figure:
    """Layers x heads, shaded by the lowest error rate of each head; the best head is marked."""
    shares = {row.head: 1 - row.aer for row in alignment.ranked()}
    return share_map(shares, "1 - alignment error rate", lambda share: f"{1 - share:.3f}")
