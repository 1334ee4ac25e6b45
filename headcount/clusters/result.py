"""Clusters: their options, distances between heads, and groups of heads near each other."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, final

from headcount.core import MAX_TOKENS, Count, InputError, Seed, check_options, check_window
from headcount.results import CorpusRecord, Result, table

if TYPE_CHECKING:
    import pandas as pd


_DISTANCES = "distances between heads"


@final
@dataclass(frozen=True)
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
@dataclass(frozen=True)
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
class ClustersRecord(CorpusRecord):
    """Facts about distances between heads that the tables do not hold."""

    FILE = "clusters.json"
    COMMAND = "headcount cluster"

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


@final
@dataclass(frozen=True)
class Clusters(Result[ClustersRecord]):
    """Distances between heads, and where each head is among the others."""

    DOCUMENTS = ("clusters.md", "clusters.html")

    record: ClustersRecord
    places: tuple[HeadPlace, ...] = table("groups.parquet", _DISTANCES)
    """Group and place of every head, in the order of all tables."""
    distances: "pd.DataFrame" = table(
        "distances.parquet", _DISTANCES, columns=("head_a", "head_b", "distance")
    )
    """Columns `head_a head_b distance`, every two heads of a site once, in nats per query."""

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """The names of the heads of every group."""
        found: dict[int, list[str]] = {}
        for place in self.places:
            found.setdefault(place.group, []).append(place.head)
        return [tuple(found[number]) for number in sorted(found)]


@final
@dataclass(frozen=True)
class ClusterOptions:
    """Settings of `cluster`, in Python and as options of the command."""

    within: float = 0.1
    """Largest distance in nats between two heads of a group; 0.69 is the largest there is."""
    windows: bool = False
    """Read sentences that are too long for the model in windows that overlap by half, instead of
    truncating them; not for encoder-decoders."""
    window: int | None = None
    """Length of these windows in tokens, special ones included (--windows is implied); by default
    as many as the model takes."""
    max_tokens: Count = MAX_TOKENS
    """Number of padded tokens in a batch; lower it if memory runs out."""
    max_weights: Count = 32_000_000
    """Number of attention weights, 4 bytes each, that are held at once; texts that need more are
    run several times."""
    pool: Count = 2000
    """Number of sentences sorted by length at a time; a larger pool needs less padding."""
    permutations: Count = 10_000
    """Number of permutations in the test whether heads of one layer are near each other."""
    seed: Seed = 0
    """Seed of the permutations and of the map in two dimensions."""

    def __post_init__(self) -> None:
        check_options(self)
        check_window(self.window)
        if not 0 <= self.within <= log(2):
            raise InputError(
                f"Expected a largest distance within groups from 0 to {log(2):.2f} nats, got "
                f"{self.within}. Give a smaller one."
            )
