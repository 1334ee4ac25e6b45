"""Contributions: what tokens add to a layer's output by weights and norms, a row per number."""

from dataclasses import dataclass
from typing import final

from headcount.results import CorpusRecord, Result, find, select, table

MEAN = -1
"""The layer of a row that is a mean over the layers of a site."""


@final
@dataclass(frozen=True)
class ContributionRow:
    """One number of one layer, or a mean over layers."""

    site: str
    """Site of the layer, e.g. `encoder.self`."""
    layer: int
    """Number of the layer in its site; -1 for the mean over layers."""
    metric: str
    """`weight`, `norm`, `weighted_norm`, `joint_norm`: means; `..._share`: of the sum over tokens;
    `mixing`: ratio of the context; `weight_by_norm`, `by_rank`: Spearman's correlations."""
    kind: str
    """Kind of the token; for `mixing` the method; for `by_rank` what the rank correlates with."""
    value: float
    """The number; NaN if there was no case."""
    low: float
    """Lower end of the 95 % interval by a bootstrap over sentences."""
    high: float
    """Upper end of that interval."""
    cases: int
    """Number of tokens that the number is over."""


@final
@dataclass(frozen=True, kw_only=True)
class ContributionRecord(CorpusRecord):
    """Facts about contributions that their table does not hold."""

    FILE = "contributions.json"
    COMMAND = "headcount reproduce kobayashi2020"

    sentences: int
    """Number of sentences."""
    heads: int
    """Number of heads."""
    truncated: int = 0
    """Number of sentences with a side too long for the model."""
    share_masked: float = 0.0
    """Share of the tokens that the model read as the mask token."""


@final
@dataclass(frozen=True)
class ContributionTable(Result[ContributionRecord]):
    """What tokens add to every layer's output."""

    DOCUMENTS = ("kobayashi2020.md",)

    record: ContributionRecord
    rows: tuple[ContributionRow, ...] = table("contributions.parquet", "what tokens contribute")
    """Every number."""

    def find(self, site: str, metric: str, kind: str, layer: int = MEAN) -> ContributionRow | None:
        """One row; None if there is none."""
        return find(self.rows, site=site, metric=metric, kind=kind, layer=layer)

    def layers(self, site: str, metric: str, kind: str) -> tuple[ContributionRow, ...]:
        """The rows of a site's layers, in order, without their mean."""
        rows = select(self.rows, site=site, metric=metric, kind=kind)
        return tuple(row for row in rows if row.layer != MEAN)
