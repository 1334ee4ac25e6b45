"""The results of an analysis, as the pass over the corpus leaves them."""

from dataclasses import asdict, dataclass
from typing import Any, final

import pandas as pd

from headcount.core import HeadTable


@final
@dataclass(frozen=True)
class Role:
    """One role of one head."""

    role: str
    """One of `ROLES`."""
    evidence: str
    """The measurement, in a sentence."""
    score: float
    """The number that was compared with the threshold."""
    offset: int | None = None
    """Offset of a positional head."""
    relation: str | None = None
    """Best relation of a syntactic head."""
    direction: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The fields of the role that apply to it."""
        return {name: value for name, value in asdict(self).items() if value is not None}


Roles = dict[str, list[Role]]
"""Roles of each head, by head name."""


@final
@dataclass(frozen=True)
class Analysis:
    """The result of an analysis."""

    heads: HeadTable
    """One row per head."""
    relations: pd.DataFrame | None
    """One row per head, relation and direction; None if no sentence had a tree."""
    offsets: pd.DataFrame
    """The offset profile of every head."""
    roles: Roles
    """Roles by head name; an empty list for a head without a role."""
    examples: dict[str, list[dict[str, Any]]]
    """The sentences that show each head's role best, by head name."""
    null: tuple[HeadTable, pd.DataFrame | None] | None
    """Tables of heads and relations for the random-weight copy."""
    record: dict[str, Any]
    """Contents of run.json: signature, counts, warnings, timings."""
