"""The document of a training: findings, a table of the checkpoints, and figures."""

from collections.abc import Mapping

from headcount.core import Document, Table, Text, amount
from headcount.papers.following.figures import following_charts
from headcount.papers.following.record import Followed


def followed_document(followed: Followed) -> Document:
    """The findings, the checkpoints and their figures."""
    record = followed.record
    headers = [
        *("checkpoint", "loss", record.metric, "rank correlation with the last, 95 % interval"),
        *("on the other half", "prunable, 95 % interval", "confidence", "roles", "tendencies"),
    ]
    rows = [
        [
            point.name if point.step is None else f"step {point.step:,}",
            f"{point.loss:.3f}",
            f"{point.score:.2f}",
            str(point.correlation),
            f"{point.across_halves:.2f}",
            f"{point.prunable:.2f}, {point.prunable_low:.2f} to {point.prunable_high:.2f}",
            f"{point.confidence:.2f}",
            _counts(point.roles),
            _counts(point.tendencies),
        ]
        for point in record.checkpoints
    ]
    return Document(
        "Heads along a training",
        (
            Text(
                f"{amount(record.num_examples, 'example')} of {record.task}; importance by "
                f"{record.method}."
            ),
            Text(" ".join(record.sentences), "lede"),
            Table.of(headers, rows, "The checkpoints"),
            *following_charts(record),
        ),
    ).ending(record.warnings, record.signature)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items())
