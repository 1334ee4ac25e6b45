"""Matching: heads of two models paired by what they do, what the pairs have in common, as shown."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from headcount import numbers
from headcount.core import VERSION, Block, Document, Heading, Table, Text, Warned, amount
from headcount.pages import MEASURES, SITE_TITLES
from headcount.results import Signature, Stored
from headcount.statistics import ALPHA
from headcount.vocabulary import TRAITS, TraitEntry


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


PAIRING = {True: "across layers", False: "within layers"}
"""Names of both ways to pair heads, by whether layers may differ."""


def _why(matching: Matching) -> str:
    """Why heads are not paired by their numbers; nothing for two runs of one model.

    >>> _why(Matching(runs=("a", "b"), signatures=("revision:1", "revision:1"), draws=1, sites=()))
    ''
    """
    one, other = (Signature.parse(each).revision for each in matching.signatures)
    return "" if one == other else ", since models that were trained apart number them by chance"


def matching_document(matching: Matching) -> Document:
    """The document of a matching: sites, held-out numbers and pairs."""
    return Document(
        "Heads matched by what they do",
        (
            Text(
                "Heads are paired by their profiles (least sum of distances between standardised "
                f"traits){_why(matching)}. "
                "Correlations are rank correlations over pairs, of numbers that did not choose the "
                "pairs: traits over pairs chosen by the traits of other roles, and columns of the "
                "head table. Random pairs are drawn within the site. Same layers shuffles the "
                "second heads of pairs within their layers: what depth alone explains. Ranges "
                "hold 95 % of the random pairs.",
                "lede",
            ),
            _sites(matching),
            *(block for found in matching.sites for block in _site(found, matching.runs)),
            *(Warned(f"not matched: {warning}") for warning in matching.warnings),
        ),
    )


def _site(found: SiteMatching, runs: tuple[str, str]) -> Iterator[Block]:
    title = matching_title(found)
    yield Heading(title)
    yield Text(matching_sentence(found))
    header = ("number", "held-out role", "correlation", "random", "same layers", "p (Holm)")
    rows = map(_correlation_row, found.correlations)
    yield Table.of(header, rows, f"Correlations over matched heads: {title}")
    if found.across_layers:
        pairs = ((pair.one, pair.other, f"{pair.distance:.2f}") for pair in found.pairs)
        yield Table.of((*runs, "distance"), pairs, f"Matched heads: {title}")


def matching_title(found: SiteMatching) -> str:
    """Name of the site, and whether layers may differ."""
    return f"{SITE_TITLES.get(found.site, found.site)}, {PAIRING[found.across_layers]}"


def matching_sentence(found: SiteMatching) -> str:
    """The main result of one site in words."""
    mean, *others = found.correlations
    traits = [each for each in others if each.group]
    beyond = sum(each.p_holm < ALPHA for each in traits)
    layers = mean.same_layers
    depth = "" if layers is None else f", {numbers.correlation(layers.mean)} with depth alone"
    return (
        f"Held-out traits of matched heads correlate by {numbers.correlation(mean.rho)} on average "
        f"({numbers.correlation(mean.random.mean)} for random pairs{depth}); {beyond} of "
        f"{amount(len(traits), 'trait')} beyond both after Holm's correction."
    )


def _number_label(each: PairCorrelation) -> str:
    """The name of a number as it is shown."""
    known = TRAITS.get(each.number) if each.group else MEASURES.get(each.number)
    if isinstance(known, TraitEntry) and known.role.name != each.group:
        return each.number  # a relation called like a trait
    return known.label if known else each.number


def _in_range(chance: Chance | None) -> str:
    """The range of the middle 95 %, or a dash."""
    if chance is None:
        return numbers.UNKNOWN
    return f"{numbers.correlation(chance.low)} to {numbers.correlation(chance.high)}"


def _sites(matching: Matching) -> Table:
    header = [
        *("site", "pairing", "heads", "distance", "shuffled profiles", "layers apart", "random"),
        *("held-out traits", "random", "same layers"),
    ]
    rows = []
    for found in matching.sites:
        mean = found.correlations[0]
        rows.append(
            [
                SITE_TITLES.get(found.site, found.site),
                PAIRING[found.across_layers],
                " and ".join(map(str, dict.fromkeys(found.heads))),
                f"{found.distance:.2f}",
                f"{found.distance_by_chance.low:.2f} to {found.distance_by_chance.high:.2f}",
                f"{found.layers_apart:.2f}",
                f"{found.layers_apart_by_chance.mean:.2f}",
                numbers.correlation(mean.rho),
                _in_range(mean.random),
                _in_range(mean.same_layers),
            ]
        )
    return Table.of(header, rows, "Matched heads of every site")


def _correlation_row(each: PairCorrelation) -> tuple[str, ...]:
    """The cells of a correlation in a table: what, held-out role, value, both nulls, and p."""
    return (
        _number_label(each),
        each.group or numbers.UNKNOWN,
        numbers.correlation(each.rho),
        _in_range(each.random),
        _in_range(each.same_layers),
        numbers.probability(each.p_holm),
    )
