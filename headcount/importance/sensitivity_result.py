"""Sensitivity: how the loss reacts to attention on kinds of tokens, a row for each number."""

from dataclasses import dataclass
from typing import final

from headcount.results import ModelRecord, Result, select, table

KINDS = ("separator", "first", "punctuation", "other")
"""Kinds of tokens that are attended to; each token has one."""


@final
@dataclass(frozen=True)
class SensitivityRow:
    """One number of one head, or of all heads of one layer."""

    site: str
    """Site of the layer, e.g. `encoder.self`."""
    layer: int
    """Number of the layer in its site."""
    head: str
    """Name of the head; `all` for the mean over the layer's heads."""
    kind: str
    """Kind of the token attended to, one of `KINDS`."""
    metric: str
    """`gradient`: mean |dL/dA|, in the loss's unit; `attention`: mean weight on the kind,
    over queries; `ratio`: gradient, as a share of that for other tokens."""
    value: float
    """The number; NaN if no token is of the kind."""
    low: float
    """Lower end of the 95 % interval by a bootstrap over examples."""
    high: float
    """Upper end of that interval."""
    cases: int
    """Number of weights (`attention`: of queries, `ratio`: of weights on the kind)."""


@final
@dataclass(frozen=True)
class NoOp:
    """Whether heads that look more at a kind of token react less to it."""

    site: str
    kind: str
    spearman: float
    """Rank correlation over heads of attention to the kind with the gradient's ratio."""
    low: float
    """Lower end of the 95 % interval."""
    high: float
    """Upper end of the 95 % interval."""
    heads: int
    """Number of heads."""


@final
@dataclass(frozen=True, kw_only=True)
class SensitivityRecord(ModelRecord):
    """Facts about a sensitivity that its table does not hold."""

    FILE = "sensitivity.json"
    COMMAND = "headcount sensitivity"

    task: str
    """Task that defines the loss."""
    examples: int
    """Number of examples."""
    loss: float
    """Mean loss over everything that was predicted."""
    no_ops: tuple[NoOp, ...]
    """Correlations of attention with the reaction to it, for every site and special kind."""


@final
@dataclass(frozen=True)
class Sensitivity(Result[SensitivityRecord]):
    """How the loss reacts to attention on every kind of token, by head and layer."""

    DOCUMENTS = ("sensitivity.md", "sensitivity.html")

    record: SensitivityRecord
    rows: tuple[SensitivityRow, ...] = table("sensitivity.parquet", "how the loss reacts")
    """Every number."""

    def layers(self, metric: str, kind: str) -> tuple[SensitivityRow, ...]:
        """The rows of all layers for a metric and a kind of token, in order."""
        return tuple(select(self.rows, head="all", metric=metric, kind=kind))
