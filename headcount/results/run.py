"""The results of a run as plain values: `read` fills them, everything else shows them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from headcount.core import LayerId
from headcount.results.examples import Example
from headcount.results.importance import ImportanceRecord
from headcount.results.roles import Role
from headcount.results.run_record import RunRecord


@final
@dataclass(frozen=True)
class HeadRow:
    """One row of the table of heads."""

    head: str
    site: str
    layer: int
    index: int
    roles: tuple[str, ...]
    values: Mapping[str, float]
    """Every measured number by its column; NaN if it could not be measured."""

    @property
    def layer_id(self) -> LayerId:
        """Site and number of the layer."""
        return LayerId(self.site, self.layer)


@final
@dataclass(frozen=True)
class RelationResult:
    """How well one head finds one relation in one direction."""

    head: str
    relation: str
    direction: str
    accuracy: float
    cases: int
    baseline: float
    baseline_offset: float

    @property
    def gain(self) -> float:
        """Accuracy minus the accuracy of the best fixed offset."""
        return self.accuracy - self.baseline


@final
@dataclass(frozen=True)
class Run:
    """All results of one run."""

    record: RunRecord
    """Facts about the analysis: the contents of `run.json`."""
    heads: tuple[HeadRow, ...]
    offsets: Mapping[str, Mapping[int, float]]
    """Share of queries at each offset, by head."""
    relations: tuple[RelationResult, ...] | None
    """Accuracies of the relations; None if the corpus has no trees."""
    null_heads: tuple[HeadRow, ...] | None
    """The table of heads at random weights; None without `--null`."""
    null_relations: tuple[RelationResult, ...] | None
    examples: Mapping[str, tuple[Example, ...]]
    roles: Mapping[str, tuple[Role, ...]]
    """Roles of every head in the order of `heads`, the main role first; empty if none."""
    importance: ImportanceRecord | None = None
    """Importance of the heads for a task; None until `headcount importance` was run."""

    @property
    def measures(self) -> tuple[str, ...]:
        """The number columns, in the order of the table."""
        return tuple(self.heads[0].values)

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites that occur, in the order of the table."""
        return tuple(dict.fromkeys(row.site for row in self.heads))

    def by_site(self) -> list[tuple[str, list[HeadRow]]]:
        """The rows of each site, in the order of the table."""
        return [(site, [row for row in self.heads if row.site == site]) for site in self.sites]

    @property
    def num_layers(self) -> int:
        """Number of layers of the deepest site."""
        return max(row.layer for row in self.heads) + 1
