"""Columns of the head table: what each says, and those of ablation; measures write their own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from headcount import numbers

WORTH = "What it is worth"
"""The group of the scores; higher = more important."""
WEIGHTS = "Mean weight on"
PICTURES = "Words beside pictures or sound"
"""The group of mean weights on some keys."""


@final
@dataclass(frozen=True)
class ColumnEntry:
    """One measured number of every head."""

    key: str
    label: str
    group: str
    about: str
    """Meaning, in a phrase."""
    show: Callable[[float], str]
    """The number as text."""
    source: str = ""
    """Paper and section that define it, as docs/measures.md names them; empty if none does."""
    has_signs: bool = False
    """Whether values lie on both sides of zero."""
    rests: str = ""
    """The keys that heads may rest on, if it is a weight on such keys."""
    norm: str = ""
    """Column with the norm-weighted share on the same keys."""

    @property
    def words(self) -> str:
        """Everything that a search for the column can name, in lower case."""
        return f"{self.label} {self.about} {'sink' if self.rests else ''}".lower()


def plain(key: str) -> ColumnEntry:
    """A column of which only the name is known."""
    return ColumnEntry(key, key.replace("_", " "), "Other", "", numbers.weight)
