"""Matching: heads of two models paired by what they do, with what the pairs have in common."""

from dataclasses import dataclass
from typing import final

from headcount.core import VERSION
from headcount.results import Stored


@final
@dataclass(frozen=True)
class MatchedPair:
    """A head of the first model and the head of the second one that does most nearly the same."""

    one: str
    """Name of the head of the first model."""
    other: str
    """Name of the head of the second model."""
    distance: float
    """Euclidean distance of their standardised traits."""


@final
@dataclass(frozen=True)
class Chance:
    """What random pairs give instead: mean, range of the middle 95 %, and one-sided p-value."""

    mean: float
    """Mean over random pairs."""
    low: float
    """Lower end of the middle 95 %."""
    high: float
    """Upper end of the middle 95 %."""
    p: float
    """Share of random pairs that agree at least as well."""


@final
@dataclass(frozen=True)
class PairCorrelation:
    """Rank correlation over pairs of one number that did not choose the pairs."""

    number: str
    """Name of a trait, or column of the head table; `all held-out traits` for their mean."""
    group: str
    """Role that the trait can give; the pairs were chosen by the traits of all other groups.
    Empty for a column, whose pairs were chosen by all traits."""
    rho: float
    """Spearman's rank correlation over pairs."""
    random: Chance
    """The correlation over pairs drawn at random within the site."""
    same_layers: Chance | None
    """The correlation after the second model's heads are shuffled among the pairs within their
    layers; None if no layer has two pairs."""
    p_holm: float
    """The larger of both p-values, corrected for the numbers of the site (Holm)."""


@final
@dataclass(frozen=True)
class SiteMatching:
    """The pairs of one site."""

    site: str
    """Name of the site."""
    across_layers: bool
    """Whether a head can be paired with a head of another layer."""
    heads: tuple[int, int]
    """Number of heads of each model; those of the larger one that have no pair are not listed."""
    traits: tuple[str, ...]
    """Traits that chose the pairs."""
    pairs: tuple[MatchedPair, ...]
    """Pairs in the order of the first model's heads."""
    distance: float
    """Mean distance of pairs."""
    distance_by_chance: Chance
    """The same if every trait of the second model is shuffled over heads on its own, and heads
    are paired again."""
    layers_apart: float
    """Mean number of layers between the heads of a pair."""
    layers_apart_by_chance: Chance
    """The same of pairs drawn at random."""
    correlations: tuple[PairCorrelation, ...]
    """Correlations of held-out numbers, the mean of the traits first."""


@final
@dataclass(frozen=True, kw_only=True)
class Matching(Stored):
    """Heads of two runs, matched site by site."""

    FILE = "matching.json"
    COMMAND = "headcount compare --match"
    FOLDER = "the folder of a comparison"

    version: int = VERSION
    """Version of the format."""
    runs: tuple[str, str]
    """Names of the runs."""
    signatures: tuple[str, str]
    """Signatures of the runs."""
    draws: int
    """Number of random pairings behind each p-value of a correlation."""
    sites: tuple[SiteMatching, ...]
    """Every site that both models have: across layers, then within them."""
    warnings: tuple[str, ...] = ()
    """Sentences about what could not be matched."""
