"""What links of one's own show: for each kind the head that finds it best, tested or not.

As for dependency relations, the first half of the corpus chooses the head and the direction, and
all numbers are of the second. A kind with too few cases for a role is in the table, too.
"""

from collections.abc import Mapping

from headcount import numbers
from headcount.analysis.syntax_section import chosen, in_short, shares_of
from headcount.core import Chart, Document, Table, Text, amount
from headcount.results import Analysis, TraitStrength, finding, target_of
from headcount.vocabulary import LINKS, LinkWords, Thresholds

NAMED = 3
"""Largest number of kinds of links that have a sentence of their own."""


def links_document(run: Analysis) -> Document | None:
    """A head for each kind of link, with its numbers; None without links."""
    best = sorted(
        chosen(run, LINKS.role.name, with_untested=True).values(),
        key=lambda row: (row.verdict == "untested", row.chance - row.share),
    )
    if not best:
        return None
    limits = run.record.thresholds
    headers = (
        *("link", "head", "finds", "share (90 % interval)", "fixed position", "points"),
        *("cases", "verdict"),
    )
    table = Table.of(headers, map(_row, best), "A head for each kind of link")
    how = (
        "One half of the corpus chose each head; its share and that of the best fixed position "
        "are of the other half. A link is found if the largest weight is on any of its keys."
    )
    return Document(
        "Links: a head for each kind",
        (
            Text(_summary(best, limits), "lede"),
            *(Text(each) for each in _abouts(run.record.links)),
            Text(how),
            table,
            Chart("links", "Share of each kind's cases", lambda: shares_of(best, "share of links")),
        ),
    )


def _row(row: TraitStrength) -> tuple[str, ...]:
    low, high = map(numbers.percent, row.share_interval)
    return (
        in_short(row),
        row.head,
        target_of(row),
        f"{numbers.percent(row.share)} ({low} to {high})",
        numbers.percent(row.chance),
        numbers.points(row.share - row.chance),
        numbers.count(row.cases),
        numbers.UNKNOWN if row.verdict == "none" else row.verdict,
    )


def _summary(best: list[TraitStrength], limits: Thresholds) -> str:
    """A sentence for each of the first kinds, and the number of the others."""
    said = [_sentence(row, limits) for row in best[:NAMED]]
    if more := len(best) - NAMED:
        said += [f"{amount(more, 'more kind')} below."] if more > 0 else []
    return " ".join(said)


def _sentence(row: TraitStrength, limits: Thresholds) -> str:
    needed = limits.least_cases(row.role)
    if row.verdict == "untested":
        short = f"{numbers.count(row.cases)} of {numbers.count(needed)} cases"
        if row.cases >= needed:
            short = f"cases in {row.units} of {amount(limits.test_sentences, 'text')}"
        return f"{row.trait} can give no role: the tested half has {short}."
    if not row.is_beyond_chance:
        return (
            f"No head finds {row.trait} more often than position explains; {row.head} comes "
            f"nearest: it {finding(row)}."
        )
    return f"{row.head} {finding(row)}."


def _abouts(links: Mapping[str, LinkWords]) -> list[str]:
    """What each kind of link is, and where it is from."""
    found = []
    for name, each in links.items():
        parts = [each.about.rstrip("."), each.source, f"from {each.origin}" if each.origin else ""]
        if said := "; ".join(filter(None, parts)):
            found.append(f"{name}: {said}.")
    return found
