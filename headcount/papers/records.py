"""Records of papers on attention maps: contributions of tokens, and maps after fine-tuning.

Both have a row for each number. Needs no torch.
"""

from dataclasses import dataclass
from typing import final

from headcount.results import CorpusRecord, Record, Result, find, select, table

ALL = -1
"""The layer of a row over all layers of a site: a mean, or a share of all maps."""


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

    def find(self, site: str, metric: str, kind: str, layer: int = ALL) -> ContributionRow | None:
        """One row; None if there is none."""
        return find(self.rows, site=site, metric=metric, kind=kind, layer=layer)

    def layers(self, site: str, metric: str, kind: str) -> tuple[ContributionRow, ...]:
        """The rows of a site's layers, in order, without their mean."""
        rows = select(self.rows, site=site, metric=metric, kind=kind)
        return tuple(row for row in rows if row.layer != ALL)


@final
@dataclass(frozen=True)
class TunedRow:
    """One number of one head, of a layer's heads, or of all heads of a site."""

    site: str
    """Site, e.g. `encoder.self`."""
    layer: int
    """Number of the layer in its site; -1 for all layers."""
    head: str
    """Name of the head; `all` for all heads of the layer."""
    metric: str
    """`before`, `after`, `trained`: share of maps with a pattern, by the rule before and after
    fine-tuning, and by the classifier after it; `agreement`, `kappa` of the two; `cosine`;
    `words-before`, `words-after`: mean attention to a class of words; `words`: its share of tokens;
    `disabled`: drop of the score when attention is uniform."""
    kind: str
    """Name of the pattern or of the class of words; else empty."""
    value: float
    low: float
    """Lower end of the 95 % interval."""
    high: float
    """Upper end of the 95 % interval."""
    cases: int
    """Number of maps, queries or examples."""


@final
@dataclass(frozen=True, kw_only=True)
class TunedRecord(Record):
    """Facts that the table does not hold."""

    FILE = "tuned.json"
    COMMAND = "headcount reproduce kovaleva2019"

    model: str
    """Name of the model before fine-tuning, without its folder."""
    tuned: str
    """Name of the fine-tuned model, without its folder."""
    data: tuple[str, ...]
    """Names of the task's files."""
    examples: int
    """Number of examples."""
    metric: str
    """Name of the score."""
    score: float
    """Score of the fine-tuned model."""
    classifier_accuracy: float
    """Share of generated maps that the classifier gets right."""
    treebank: tuple[str, ...] = ()
    """Names of the files with tagged words."""
    treebank_sentences: int = 0
    """Number of sentences in them."""


@final
@dataclass(frozen=True)
class TunedMaps(Result[TunedRecord]):
    """How fine-tuning changes attention."""

    DOCUMENTS = ("kovaleva2019.md",)

    record: TunedRecord
    rows: tuple[TunedRow, ...] = table("tuned.parquet", "maps after fine-tuning")
    """Every number."""

    def find(
        self, site: str, metric: str, kind: str = "", layer: int = ALL, head: str = "all"
    ) -> TunedRow | None:
        """One row; None if there is none."""
        where = {"site": site, "metric": metric, "kind": kind, "layer": layer, "head": head}
        return find(self.rows, **where)

    def layers(self, site: str, metric: str) -> list[TunedRow]:
        """The rows of all heads of each layer of a site, in order."""
        rows = select(self.rows, site=site, metric=metric, head="all")
        return [row for row in rows if row.layer != ALL]

    def heads(self, site: str, metric: str, layer: int | None = None) -> list[TunedRow]:
        """The rows of single heads of a site, or of one of its layers."""
        rows = select(self.rows, site=site, metric=metric)
        return [row for row in rows if row.head != "all" and layer in (None, row.layer)]
