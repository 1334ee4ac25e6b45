"""The results of an analysis, as the pass over the corpus leaves them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import pandas as pd

from headcount.core import HeadTable
from headcount.results.examples import Example
from headcount.results.roles import Roles
from headcount.results.run_record import RunRecord


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
    examples: Mapping[str, Sequence[Example]]
    """The sentences that show each head's role best, by head name."""
    null: tuple[HeadTable, pd.DataFrame | None] | None
    """Tables of heads and relations for the random-weight copy."""
    record: RunRecord
    """Contents of run.json: signature, counts, warnings, timings."""
