"""An assessment: the record `importance.json`, what it holds, and scores in the table of heads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, final

from headcount import numbers
from headcount.core import PLACE, SITES, HeadTable, LayerId, omitted
from headcount.results.run import ColumnWords
from headcount.results.store import Record
from headcount.results.tables import Table, read_table
from headcount.vocabulary import ColumnEntry

AGREED = 0.5
"""A head is called facilitating or interfering if it is so by more than this in every set."""


@final
@dataclass(frozen=True, kw_only=True)
class GateCheck:
    """The loss without some heads, on examples that trained no gate."""

    left: str
    """What is left of the model: `only facilitating` heads or as many random ones (`only random`),
    all `without interfering` heads or as many random ones (`without random`), or all `without` one
    interfering head."""
    head: str = ""
    """The head that is removed; empty if there are several."""
    num_kept: int
    """Number of heads left."""
    delta: float
    """Rise of the loss; of random heads the mean over draws."""
    low: float
    """Lower end of the 95 % interval over examples; of random heads the smallest draw."""
    high: float
    """Upper end of the 95 % interval over examples; of random heads the largest draw."""


@final
@dataclass(frozen=True, kw_only=True)
class CausalGates:
    """What causal gates found beside the heads' numbers."""

    starts: int
    """Number of sets of gates on each half."""
    num_trained: tuple[int, ...]
    """Number of examples in each half that trained gates."""
    num_held_out: int
    """Number of examples that trained none."""
    loss: float
    """Loss of the dense model on the latter."""
    facilitating: tuple[str, ...]
    """Heads that every set keeps open although closed gates are rewarded."""
    interfering: tuple[str, ...]
    """Heads that every set keeps closed although open gates are rewarded."""
    facilitating_each: tuple[int, ...]
    """Number of facilitating heads of each set, half by half."""
    interfering_each: tuple[int, ...]
    """Number of interfering heads of each set, half by half."""
    facilitating_chance: float
    """Number of facilitating heads that sets of these sizes would share by chance."""
    interfering_chance: float
    """Number of interfering heads that sets of these sizes would share by chance."""
    starts_rho: float
    """Mean rank correlation of facilitation between starts on the same half; NaN of one start."""
    halves_rho: float
    """Rank correlation of facilitation between the halves, each the mean of its starts."""
    checks: tuple[GateCheck, ...]
    """What is left on examples that trained no gate."""


METRICS: Mapping[str, str] = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "f1": "F1",
    "macro-f1": "macro-F1",
    "matthews": "Matthews correlation",
    "spearman": "Spearman correlation",
    "ndcg@10": "nDCG@10",
    "mrr@10": "MRR@10",
}
"""Spelling of the metrics that are not written like their names."""


def loss_unit(metric: str) -> str:
    """The unit of a task's loss, by the metric that the task has.

    >>> loss_unit("bleu"), loss_unit("spearman")
    ('nats', 'squared distance')
    """
    return "squared distance" if metric == "spearman" else "nats"


REPLACEMENTS = {
    "zero": "output set to zero",
    "mean": "output replaced by its mean",
    "uniform": "attention made uniform",
}
"""Ways to remove a head, in words."""

NAN = float("nan")


@dataclass(frozen=True, kw_only=True)
class SiteEffect:
    """How much worse the model gets without any of a site's heads; positive: they help."""

    site: str
    """Site, e.g. `encoder.self`."""
    delta: float
    """Rise of the loss or drop of the score; NaN if unknown."""
    low: float = NAN
    """Lower end of the 95 % interval; NaN if unknown."""
    high: float = NAN
    """Upper end of the 95 % interval; NaN if unknown."""
    p: float = NAN
    """P-value, corrected for the number of tests; NaN if the effect was not tested."""
    p_each: float = NAN
    """P-value without correction."""

    def __post_init__(self) -> None:
        if self.site not in SITES:
            raise ValueError(f"expected a site among {', '.join(SITES)}, got {self.site!r}")


@final
@dataclass(frozen=True, kw_only=True)
class Effect(SiteEffect):
    """How much worse the model gets without some heads of a layer; positive: they help."""

    layer: int
    """Number of the layer in its site."""
    head: str = omitted("")
    """The only head kept in the layer; empty if all heads of the layer are removed."""
    halves: tuple[str, ...] = omitted(())
    """If `head` is the best of its layer: the heads that the two halves of the examples chose, each
    measured on the other half. All numbers are those of these measurements."""

    @property
    def layer_id(self) -> LayerId:
        """Site and number of the layer."""
        return LayerId(self.site, self.layer)


Rows = tuple[tuple[float, ...], ...]
"""A square matrix, row by row."""


@final
@dataclass(frozen=True)
class Correlation:
    """A correlation over heads with its 95 % interval."""

    rho: float
    low: float
    high: float
    num_heads: int
    """Number of heads that have both numbers, the others are left out; 0 if not stored."""

    def __str__(self) -> str:
        rho, low, high = map(numbers.correlation, (self.rho, self.low, self.high))
        return f"{rho}, {low} to {high}"

    @property
    def may_be_chance(self) -> bool:
        """Whether the interval holds 0."""
        return self.low <= 0 <= self.high


@final
@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Rank correlations between scores, with the conclusion."""

    names: tuple[str, ...]
    """Columns of the head table that are compared."""
    rho: Rows
    """Correlations; NaN where a score is the same for all heads or fewer than 4 heads have both."""
    low: Rows
    """Lower ends of the 95 % intervals."""
    high: Rows
    """Upper ends of the 95 % intervals."""
    num_heads: tuple[tuple[int, ...], ...] = ()
    """Number of heads that have both scores; empty if it was not stored."""
    best_predictor: str | None = None
    """The score that predicts ablation best; None if unknown."""
    sentence: str = ""
    """The meaning of the correlations in one sentence."""

    def __post_init__(self) -> None:
        size = len(self.names)
        for rows in (self.rho, self.low, self.high):
            if [len(row) for row in rows] != [size] * size:
                raise ValueError(f"expected a matrix of {size} x {size}, got {rows}")

    def of(self, one: str, other: str) -> Correlation:
        """The correlation of two scores."""
        row, column = self.names.index(one), self.names.index(other)
        rho, low, high = (each[row][column] for each in (self.rho, self.low, self.high))
        return Correlation(rho, low, high, self.num_heads[row][column] if self.num_heads else 0)

    def ranked(self, of: str = "ablation_delta") -> list[tuple[str, Correlation]]:
        """The other known scores, from the best predictor to the worst, whatever their sign.

        Scores whose correlation differs from chance come before the others, which may have
        numbers for fewer heads.
        """
        if of not in self.names:
            return []
        found = [(name, self.of(name, of)) for name in self.names if name != of]
        known = [(name, each) for name, each in found if each.rho == each.rho]
        return sorted(known, key=lambda pair: (pair[1].may_be_chance, -abs(pair[1].rho)))

    def pruning_score(self) -> str | None:
        """The best predictor beyond chance by which low heads can be pruned; None if none is."""
        return next((name for name, found in self.ranked() if found.low > 0), None)


@final
@dataclass(frozen=True, kw_only=True)
class Across:
    """Agreement of single heads' effects with their effects on other data."""

    task: str
    """Name of the other data's task."""
    num_examples: int
    """Number of examples of the other data."""
    pearson: Correlation
    """Pearson's correlation of the effects."""
    spearman: Correlation
    """Rank correlation of the effects."""
    sentence: str
    """The meaning of the correlations in one sentence."""


@final
@dataclass(frozen=True, kw_only=True)
class AblationFacts:
    """How heads were ablated."""

    replacement: str
    """Replacement for an ablated head's output: `zero`, `mean` or `uniform`."""
    quantity: str
    """Quantity whose change is measured: `loss` or `score`."""
    test: str = omitted("")
    """Test of a score's change: `randomization` or `sacrebleu`; empty for losses."""
    num_examples: int = omitted(0)
    """Number of examples on which heads were ablated; 0 in results of older versions: all."""
    p_each: tuple[float, ...] = ()
    """P-value of every single head without correction, in the order of the head table."""


@final
@dataclass(frozen=True, kw_only=True)
class ImportanceRecord(Record):
    """The assessment of a model: everything that is not in the table of heads."""

    FILE = "importance.json"
    DOCUMENTS: ClassVar[tuple[str, ...]] = ("importance.md", "importance.html")
    COMMAND = "headcount importance"

    signature: str = ""
    """Model, task, options and versions that the numbers depend on, in one text."""
    task: str
    """Name of the task."""
    metric: str = ""
    """Name of the task's score, e.g. `bleu`."""
    higher_is_better: bool = True
    """Whether a higher score is better."""
    num_examples: int
    """Number of examples."""
    loss: float = NAN
    """Loss of the dense model."""
    score: float = NAN
    """Score of the dense model."""
    methods: tuple[str, ...] = ()
    """Methods that scored the heads."""
    columns: Mapping[str, ColumnWords] = field(default_factory=dict, metadata={"omitted": True})
    """What the columns of plug-ins' scores say, by name, so that they are shown without them."""
    average: str = omitted("")
    """What relevance was normalised for before the mean: `per-example` or `per-step`; empty without
    relevance, and in records of earlier versions, which were `per-example`."""
    ablation: AblationFacts | None = omitted(None)
    """How heads were ablated; None without ablation."""
    causal_gates: CausalGates | None = omitted(None)
    """What causal gates found beside the heads' numbers; None without them."""
    sites: tuple[SiteEffect, ...] = omitted(())
    """Effects of removing all heads of a site."""
    layers: tuple[Effect, ...] = omitted(())
    """Effects of removing all heads of a layer."""
    all_but_one: tuple[Effect, ...] = omitted(())
    """Effects of removing all heads of a layer but one, for every head."""
    single_heads: tuple[Effect, ...] = omitted(())
    """The best head of each layer alone, measured on examples that did not choose it."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each method."""
    agreement: Agreement | None = omitted(None)
    """Agreement of the scores."""
    across: Across | None = omitted(None)
    """Agreement of the effects with those on other data; None if not compared."""

    @property
    def column_entries(self) -> dict[str, ColumnEntry]:
        """The columns of plug-ins' scores."""
        return {key: each.entry(key) for key, each in self.columns.items()}

    @property
    def quantity(self) -> str:
        """The quantity that ablation measures: `loss`, or the name of the metric."""
        measured = "loss" if self.ablation is None else self.ablation.quantity
        return "loss" if measured == "loss" else self.metric

    @property
    def quantity_words(self) -> str:
        """The quantity that ablation measures, as it is written in a sentence."""
        return "the loss" if self.quantity == "loss" else METRICS.get(self.metric, self.metric)

    @property
    def replacement_words(self) -> str:
        """How ablation removes heads, in words; empty without ablation."""
        replacement = "" if self.ablation is None else self.ablation.replacement
        return REPLACEMENTS.get(replacement, replacement)

    @property
    def average_words(self) -> str:
        """The average of relevance in a sentence; empty without relevance."""
        if "relevance" not in self.methods:
            return ""
        if self.task in ONE_STEP:
            return "Relevance is the mean over examples, each of one step (Voita et al., 2019)."
        if self.average == "per-step":
            return "Relevance is the mean over target steps, as in Voita et al. (2019)."
        return (
            "Relevance is the mean over examples, whose target steps are normalised together. "
            "Voita et al. (2019) normalise each step; --average per-step does so, at a higher cost."
        )

    @property
    def rises(self) -> bool:
        """Whether the measured quantity rises as the model gets worse."""
        return self.quantity == "loss" or not self.higher_is_better

    @property
    def effect(self) -> str:
        """The effect that ablation measures, e.g. "rise in the loss"."""
        return f"{'rise' if self.rises else 'drop'} in {self.quantity_words}"


ONE_STEP = ("classification", "image-classification", "similarity")
"""Tasks with one target step in each example, so that both averages of relevance are equal."""


HEADS = Table("heads.parquet", "a row for each head", PLACE, key=("head",), made=HeadTable)
"""The table of heads, in which an analysis and an assessment have columns."""


def read_head_table(folder: Path) -> HeadTable | None:
    """The table of heads in a run folder; None if there is none.

    Only for who adds columns to it, since no record is asked whether it fits: `Result.read` does.

    Raises:
        InputError: if it is damaged.
    """
    if not (path := folder / HEADS.file).exists():
        return None
    advice = "Name a complete folder, or run the command again that wrote it."
    return read_table(path, HeadTable, HEADS, advice)
