"""Columns of the head table: what each says, and those of ablation; measures write their own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import final

from headcount import numbers

WORTH = "What it is worth"
"""The group of the scores; higher = more important."""
WEIGHTS = "Mean weight on"
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


ABLATION: Mapping[str, ColumnEntry] = {
    column.key: column
    for column in (
        ColumnEntry(
            "ablation_delta",
            "ablation effect",
            WORTH,
            "how much worse the model gets without the head",
            numbers.effect,
            has_signs=True,
        ),
        ColumnEntry(
            "ablation_low",
            "ablation effect, low",
            WORTH,
            "lower end of the 95 % interval of this head alone",
            numbers.effect,
            has_signs=True,
        ),
        ColumnEntry(
            "ablation_high",
            "ablation effect, high",
            WORTH,
            "upper end of the 95 % interval of this head alone",
            numbers.effect,
            has_signs=True,
        ),
        ColumnEntry(
            "ablation_p",
            "ablation p, corrected",
            WORTH,
            "p-value over examples, corrected for the number of heads",
            numbers.probability,
        ),
    )
}
"""The columns of ablation."""
