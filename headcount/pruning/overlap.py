"""Overlap: examples that two data sets share, which makes what is measured on one too good."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from headcount.tasks import causal, classification, masked, similarity, translation
from headcount.tasks.parallel import read_parallel
from headcount.tasks.reading import read_data
from headcount.tasks.table import Columns, Data, Roles, Table

ROLES: Mapping[str, Roles] = {
    "translation": translation.ROLES,
    "classification": classification.ROLES,
    "causal-lm": causal.ROLES,
    "masked-lm": masked.ROLES,
    "similarity": similarity.ROLES,
}
"""The columns of every task."""

GOLD = frozenset({"target", "label", "score"})
"""Columns that say what is right; examples are the same where all others are."""


@final
@dataclass(frozen=True)
class DataSet:
    """Files of a task, and how they are read."""

    task: str
    files: Data
    columns: Columns | None = None
    limit: int | None = None

    def inputs(self) -> list[tuple[str, ...]]:
        """What the model is given, an example each."""
        reader = read_parallel if self.task == "translation" else read_data
        table: Table = reader(self.files, self.columns, ROLES[self.task]).first(self.limit)
        given = [cells for role, cells in table.columns.items() if role not in GOLD]
        return list(zip(*given, strict=True))


def warning(one: DataSet, other: DataSet, names: tuple[str, str]) -> str | None:
    """A sentence where two data sets share inputs; None where they do not.

    Args:
        one: what is chosen or trained on.
        other: what is measured on.
        names: of the two, for the sentence.
    """
    known, inputs = set(one.inputs()), other.inputs()
    shared = sum(each in known for each in inputs)
    if not shared:
        return None
    return (
        f"{shared:,} of {len(inputs):,} examples of {names[1]} are in {names[0]} too: what is "
        f"measured on {names[1]} is better than it would be on new data"
    )
