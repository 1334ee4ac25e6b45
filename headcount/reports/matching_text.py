"""The Markdown of a matching: what pairs of heads have in common, beside chance."""

from collections.abc import Sequence

from headcount.core import amount, table
from headcount.reports import numbers
from headcount.reports.names import MEASURES, SITE_TITLES
from headcount.results import Chance, Matching, PairCorrelation, SiteMatching
from headcount.statistics import ALPHA

PAIRING = {True: "across layers", False: "within layers"}
"""Names of both ways to pair heads, by whether layers may differ."""


def matching_document(matching: Matching) -> str:
    """The section of a comparison: sites, held-out numbers and pairs."""
    parts = [
        "## Heads matched by what they do",
        "Heads are paired by their profiles (least sum of distances). Correlations are rank "
        "correlations over pairs of numbers that did not choose them: traits over pairs chosen by "
        "the traits of other roles, and columns of the head table. *Random* pairs are drawn within "
        "the site. *Same layers* shuffles the second heads of pairs within their layers: what "
        "depth alone explains. Ranges hold 95 % of the random pairs.",
        _sites(matching),
    ]
    for found in matching.sites:
        parts += [f"### {matching_title(found)}"]
        parts += [matching_sentence(found), _correlations(found.correlations)]
        parts += [_pairs(found, matching.runs)] if found.across_layers else []
    parts += [f"Not matched: {warning}." for warning in matching.warnings]
    return "\n\n".join(parts)


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


def number_label(each: PairCorrelation) -> str:
    """The name of a number as it is shown."""
    return MEASURES[each.number].label if each.number in MEASURES else each.number


def in_range(chance: Chance | None) -> str:
    """The range of the middle 95 %, or a dash."""
    if chance is None:
        return numbers.UNKNOWN
    return f"{numbers.correlation(chance.low)} to {numbers.correlation(chance.high)}"


def _sites(matching: Matching) -> str:
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
                in_range(mean.random),
                in_range(mean.same_layers),
            ]
        )
    return table(header, rows)


def correlation_row(each: PairCorrelation) -> tuple[str, ...]:
    """The cells of a correlation in a table: what, held-out role, value, both nulls, and p."""
    return (
        number_label(each),
        each.group or numbers.UNKNOWN,
        numbers.correlation(each.rho),
        in_range(each.random),
        in_range(each.same_layers),
        numbers.probability(each.p_holm),
    )


def _correlations(correlations: Sequence[PairCorrelation]) -> str:
    rows = [correlation_row(each) for each in correlations]
    header = ["number", "held-out role", "correlation", "random", "same layers", "p (Holm)"]
    return table(header, rows)


def _pairs(found: SiteMatching, runs: tuple[str, str]) -> str:
    rows = [[pair.one, pair.other, f"{pair.distance:.2f}"] for pair in found.pairs]
    return table([*runs, "distance"], rows)
