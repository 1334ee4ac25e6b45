"""Overlap: examples shared by two data sets, which make measurements too good."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from headcount.corpora import Columns, ColumnSpec, Data, Table, read_data, read_parallel
from headcount.tasks import causal, classification, masked, similarity, translation

ROLES: Mapping[str, ColumnSpec] = {
    "translation": translation.ROLES,
    "classification": classification.ROLES,
    "causal-lm": causal.ROLES,
    "masked-lm": masked.ROLES,
    "similarity": similarity.ROLES,
}
"""Columns of every task, by its name."""

GOLD = frozenset({"target", "label", "score"})
"""Columns with the right answer; examples count as the same if all other columns are equal."""


@final
@dataclass(frozen=True)
class DataSet:
    """Files of a task, and how to read them."""

    task: str
    files: Data
    columns: Columns | None = None
    limit: int | None = None

    def inputs(self) -> list[tuple[str, ...]]:
        """The model's inputs, one tuple for each example."""
        reader = read_parallel if self.task == "translation" else read_data
        table: Table = reader(self.files, self.columns, ROLES[self.task]).first(self.limit)
        given = [cells for role, cells in table.columns.items() if role not in GOLD]
        return list(zip(*given, strict=True))


def warning(one: DataSet, other: DataSet, names: tuple[str, str]) -> str | None:
    """A warning if two data sets share inputs, otherwise None.

    Args:
        one: the data to choose heads or train on.
        other: the data to measure on.
        names: names of the two, for the warning.
    """
    known, inputs = set(one.inputs()), other.inputs()
    shared = sum(each in known for each in inputs)
    if not shared:
        return None
    return (
        f"{shared:,} of {len(inputs):,} examples of {names[1]} are in {names[0]} too: results on "
        f"{names[1]} are better than they would be on new data"
    )
