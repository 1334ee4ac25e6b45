"""What a matching shows: what pairs of heads have in common, beside chance."""

from collections.abc import Iterator

from headcount import numbers
from headcount.core import Block, Document, Heading, Table, Text, Warned, amount
from headcount.reports.names import MEASURES, SITE_TITLES
from headcount.results import Chance, Matching, PairCorrelation, SiteMatching
from headcount.statistics import ALPHA
from headcount.vocabulary import TRAITS

PAIRING = {True: "across layers", False: "within layers"}
"""Names of both ways to pair heads, by whether layers may differ."""


def matching_document(matching: Matching) -> Document:
    """The document of a matching: sites, held-out numbers and pairs."""
    return Document(
        "Heads matched by what they do",
        (
            Text(
                "Heads are paired by their profiles (least sum of distances between standardised "
                "traits), since the numbers of heads mean nothing if models were trained apart. "
                "Correlations are rank correlations over pairs of numbers that did not choose "
                "them: traits over pairs chosen by the traits of other roles, and columns of the "
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
    known = MEASURES.get(each.number) or TRAITS.get(each.number)
    return known.label if known else each.number


def _in_range(chance: Chance | None) -> str:
    """The range of the middle 95 %, or a dash."""
    if chance is None:
        return numbers.UNKNOWN
    return f"{numbers.correlation(chance.low)} to {numbers.correlation(chance.high)}"


def _sites(matching: Matching) -> Table:
    header = [
        "site",
        "pairing",
        "heads",
        "distance",
        "shuffled profiles",
        "layers apart",
        "random",
        "held-out traits",
        "random",
        "same layers",
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
