"""Clusters: distances between heads, and the groups of heads that are near each other."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, final

import pandas as pd

from headcount.core import reading
from headcount.results.json_file import JsonObject, encoded, write_sealed


@final
@dataclass(frozen=True, kw_only=True)
class HeadPlace:
    """Where one head is among the heads of its site."""

    head: str
    """Name of the head, e.g. `enc.3.7`."""
    group: int
    """Number of its group, from 0, in the order of the hierarchy; counted over all sites."""
    order: int
    """Place in the order of the hierarchy of its site, in which neighbours are alike."""
    x: float
    """First coordinate on the map, in nats."""
    y: float
    """Second coordinate on the map, in nats."""


@final
@dataclass(frozen=True, kw_only=True)
class LayerTest:
    """Whether heads of one layer are nearer to each other than to other heads."""

    site: str
    same_layer: float
    """Mean distance between two heads of one layer, in nats."""
    other_layers: float
    """Mean distance between two heads of different layers, in nats."""
    p: float
    """Share of permutations of the heads with as large a difference, the true order included."""
    permutations: int
    """Number of permutations."""


@final
@dataclass(frozen=True, kw_only=True)
class ClustersRecord:
    """Facts about distances between heads that the tables do not hold."""

    signature: str
    """Model, corpus, options and versions that the numbers depend on, in one text."""
    model: str
    """Name of the model, as given."""
    corpora: tuple[str, ...]
    """Names of the corpus files."""
    sentences: int
    """Number of sentences."""
    queries: Mapping[str, int]
    """Number of queries that the distances are means over, by site."""
    truncated: int = 0
    """Number of sentences with a side too long for the model."""
    within: float
    """Largest distance in nats between two heads of a group."""
    tests: tuple[LayerTest, ...]
    """Whether heads of one layer are near each other, for every site."""
    warnings: tuple[str, ...] = ()
    """Sentences about what was truncated."""
    timings: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each step."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the command; empty if the distances were measured in Python."""

    def to_json(self) -> dict[str, Any]:
        """The contents of `clusters.json`."""
        return encoded(self)

    @classmethod
    def read(cls, path: Path) -> "ClustersRecord":
        """The record in a `clusters.json`.

        Raises:
            InputError: if there is no such file, or it is damaged or of a newer version.
        """
        return JsonObject.read_sealed(path, "headcount cluster").decode(cls)


@final
@dataclass(frozen=True)
class Clusters:
    """Distances between heads, and where each head is among the others."""

    distances: pd.DataFrame
    """Columns `head_a head_b distance`, every two heads of a site once, in nats per query."""
    places: tuple[HeadPlace, ...]
    """Group and place of every head, in the order of all tables."""
    record: ClustersRecord

    @property
    def frame(self) -> pd.DataFrame:
        """The table of places: one row per head."""
        return pd.DataFrame([asdict(place) for place in self.places])

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """The names of the heads of every group."""
        found: dict[int, list[str]] = {}
        for place in self.places:
            found.setdefault(place.group, []).append(place.head)
        return [tuple(found[number]) for number in sorted(found)]


def write_clusters(clusters: Clusters, folder: Path) -> None:
    """Write `distances.parquet`, `groups.parquet` and, last, `clusters.json`."""
    tables = {"distances.parquet": clusters.distances, "groups.parquet": clusters.frame}
    write_sealed(folder / "clusters.json", clusters.record, tables=tables)


def read_clusters(folder: Path) -> Clusters:
    """The clusters in a folder.

    Raises:
        InputError: if a file is missing, damaged or of a newer version.
    """
    record = ClustersRecord.read(folder / "clusters.json")
    with reading(folder, "distances between heads", "Run `headcount cluster` again."):
        places = pd.read_parquet(folder / "groups.parquet").to_dict("records")
        return Clusters(
            pd.read_parquet(folder / "distances.parquet"),
            tuple(HeadPlace(**{str(name): each for name, each in row.items()}) for row in places),
            record,
        )
