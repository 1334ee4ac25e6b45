"""Measures: what a head looks at. One file per measure; each is sums that add."""

from headcount.measures.confidence import Confidence, confidence
from headcount.measures.entropy import Entropy
from headcount.measures.norms import Norms
from headcount.measures.patterns import Patterns
from headcount.measures.positional import Positional
from headcount.measures.rare import Rare
from headcount.measures.sums import Sums
from headcount.measures.surface import Surface
from headcount.measures.syntactic import ALL, DIRECTIONS, Syntactic

MEASURES: tuple[type[Sums], ...] = (
    Confidence, Entropy, Positional, Surface, Rare, Norms, Patterns, Syntactic,
)  # fmt: skip
"""All measures, in the order of the head table's columns."""

__all__ = [
    "ALL", "DIRECTIONS", "MEASURES", "Confidence", "Entropy", "Norms", "Patterns", "Positional",
    "Rare", "Sums", "Surface", "Syntactic", "confidence",
]  # fmt: skip
