"""The document of a training: findings, a table of the checkpoints, and figures."""

from collections.abc import Mapping
from pathlib import Path

from headcount.core import amount, code, styled, table, write_document
from headcount.papers.following.figures import following_figures
from headcount.papers.following.record import Followed, FollowRecord


def write_followed(followed: Followed, folder: Path) -> Path:
    """Write `follow.md` and its figures into a folder; returns the document's path."""
    record = followed.record
    with styled():
        return write_document(folder / "follow.md", _document(record), following_figures(record))


def _document(record: FollowRecord) -> str:
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
    parts = [
        "# Heads along a training",
        " ".join(record.sentences),
        table(headers, rows),
        f"{amount(record.num_examples, 'example')} of {record.task}; "
        f"importance by {record.method}.",
        *(f"warning: {each}" for each in record.warnings),
        code(str(record.signature)),
    ]
    return "\n\n".join(parts) + "\n"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items())
