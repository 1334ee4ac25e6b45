"""Roles of heads as they are stored, each with its evidence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from headcount.core import omitted


@final
@dataclass(frozen=True)
class Role:
    """One role of one head."""

    role: str
    """Name of the role, e.g. `positional`."""
    evidence: str = ""
    """The measurement, in a sentence."""
    score: float = 0.0
    """The number that was compared with the threshold."""
    offset: int | None = omitted(None)
    """Offset of a positional head."""
    relation: str | None = omitted(None)
    """Best relation of a syntactic head."""
    direction: str | None = omitted(None)
    """Direction of that relation, e.g. `head->dependent`; on images, where the head looks, as in
    `2 up`, `row` or `row 1, column 3`."""
    certainty: str | None = omitted(None)
    """`clear` or `borderline`: see `Thresholds.certainty`; None if it is unknown."""


Roles = Mapping[str, Sequence[Role]]
"""Roles of each head, by head name."""
