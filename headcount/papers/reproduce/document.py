"""The document of a reproduction: which numbers it compares, their units, and its files."""

from collections.abc import Mapping
from pathlib import Path

from matplotlib.figure import Figure

from headcount.core import FORMATS, save, write_readable
from headcount.results import CurvePoints

IN_POINTS = ("accuracy", "f1", "matthews", "spearman")
"""Scores with a maximum of 1, which papers print in points, that is, times 100."""


def scale(quantity: str) -> float:
    """The factor from a score or loss to the printed number."""
    return 100.0 if quantity in IN_POINTS else 1.0


def in_unit(quantity: str, higher_is_better: bool) -> str:
    """The name of the quantity in a document, with its unit.

    >>> in_unit("spearman", True), in_unit("perplexity", False)
    ('spearman in points', 'perplexity (lower is better)')
    """
    unit = " in points" if quantity in IN_POINTS else ""
    return f"{quantity}{unit}{'' if higher_is_better else ' (lower is better)'}"


def change(value: float, sure: bool = False) -> str:
    """A signed change of a score, in bold if significant.

    >>> change(-1.312), change(0.204, sure=True), change(float("nan"))
    ('−1.31', '**+0.20**', '–')
    """
    if value != value:
        return "–"
    text = f"{value:+.2f}".replace("+0.00", "0.00").replace("-0.00", "0.00").replace("-", "−")
    return f"**{text}**" if sure else text


def score_column(points: CurvePoints) -> str:
    """The first available column: test score, development score, test loss, development loss."""
    order = ("test_score", "score", "test_loss", "loss")
    return next(name for name in order if name in points)


def write_document(path: Path, text: str, figures: Mapping[str, Figure] | None = None) -> Path:
    """Write a document, with its figures in `figures/` beside it; returns its path."""
    for name, figure in (figures or {}).items():
        for kind in FORMATS:
            save(figure, path.parent / "figures" / f"{name}.{kind}")
        text += f"\n![{name}](figures/{name}.svg)\n"
    write_readable(path, text)
    return path
