"""What relations, and links of one's own, show: a head for each, against the best fixed position.

The best of many heads on the sentences that chose it looks better than it is. So the first half of
the corpus chooses the head and the direction of each relation, and all numbers are of the second
half. Version 0.1 tested no relations: numbers of its runs are of all sentences. A kind of links
with too few cases for a role is in the table, too.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import final

import numpy as np
from matplotlib.figure import Figure

from headcount import numbers
from headcount.core import (
    ACCENT,
    INK,
    MUTED,
    Block,
    Chart,
    Document,
    Table,
    Text,
    amount,
    named_rows,
)
from headcount.pages import PagePart
from headcount.results import Analysis, RelationResult, TraitStrength, finding, target_of
from headcount.vocabulary import (
    LINK_DIRECTIONS,
    LINKS,
    NOT_SYNTAX,
    SYNTAX,
    LinkWords,
    Thresholds,
    relation_label,
    relation_target,
)


def best_heads(run: Analysis) -> list[TraitStrength]:
    """The trait of the head that was chosen for each relation, the largest gain first."""
    return sorted(chosen(run).values(), key=lambda trait: trait.chance - trait.share)


def chosen(
    run: Analysis, role: str = SYNTAX.role.name, with_untested: bool = False
) -> dict[str, TraitStrength]:
    """The head that the first half of the corpus chose for each relation, with enough cases.

    Args:
        run: the analysis.
        role: the role that the relations give.
        with_untested: whether relations with too few cases are among them.
    """
    best: dict[str, TraitStrength] = {}
    for trait in _relations(run, role):
        known = best.get(trait.trait)
        is_tested = with_untested or trait.verdict != "untested"
        if is_tested and (known is None or trait.first_gain > known.first_gain):
            best[trait.trait] = trait
    return best


def _relations(run: Analysis, role: str = SYNTAX.role.name) -> list[TraitStrength]:
    """Every relation of every head that can give a role."""
    if run.traits is None:
        found, limits = run.relation_rows or (), run.record.thresholds
        found = [each for each in found if each.is_measured]
        return [_as_trait(each, limits) for each in found if each.relation not in NOT_SYNTAX]
    every = (trait for own in run.traits.values() for trait in own)
    return [each for each in every if each.relation is not None and each.role == role]


def _as_trait(result: RelationResult, limits: Thresholds) -> TraitStrength:
    """A relation on all sentences as a trait, most of whose numbers are unknown."""
    known = {"share": result.accuracy, "chance": result.baseline, "first_gain": result.gain}
    unknown = ("null", "attainable", "strength", "low", "high", "score", "position_null")
    return TraitStrength(
        head=result.head,
        trait=result.relation,
        role=SYNTAX.role.name,
        relation=result.relation,
        direction=result.direction,
        cases=result.cases,
        units=0,
        verdict="untested" if result.is_few(limits) else "none",
        **known,
        **dict.fromkeys((*unknown, "paper_share", "p", "p_holm"), math.nan),
    )


def _in_short(trait: TraitStrength) -> str:
    """A relation with its direction, as an arrow: `nsubj, head → dependent`."""
    return relation_label(trait.relation or "", trait.direction or "", trait.words)


def _summary(best: list[TraitStrength], limits: Thresholds) -> str:
    if not best:
        return f"No relation has the {amount(limits.syntactic_cases, 'case')} that a test needs."
    beyond = sum(trait.is_beyond_chance for trait in best)
    roles = sum(trait.verdict == "role" for trait in best)
    if not beyond:
        many = f"any of the {len(best)} relations" if len(best) > 1 else "the one relation"
        return f"No head finds {many} with enough cases more often than position explains."
    return (
        f"Of {numbers.of(len(best), 'relation', 'relations')} with enough cases, a head finds "
        f"{numbers.count(beyond)} more often than position explains, "
        f"{numbers.count(roles) if roles else 'none'} by {limits.syntactic_words} or more."
    )


def syntax_document(run: Analysis) -> Document | None:
    """A head for each relation, with its numbers; None without trees."""
    traits, best = _relations(run), best_heads(run)
    if not traits:
        return None
    summary = _summary(best, run.record.thresholds)
    how = (
        "One half of the corpus chose each head; its share and that of the best fixed position "
        "are of the other half."
    )
    if run.traits is None and best:
        summary = f"{numbers.of(len(best), 'relation has', 'relations have')} enough cases."
        how = (
            "The analysis is of version 0.1, which tested no relations: each head is the best one "
            "on the sentences that it is measured on, so its share is optimistic."
        )
    if few := len({trait.trait for trait in traits}) - len(best):
        few_have = numbers.of(few, "relation has", "relations have")
        summary += f" {few_have} too few cases to test."
    headers = ("relation", "head", "finds", "share", "fixed position", "points", "cases", "verdict")
    rows = (
        (
            _in_short(row),
            row.head,
            relation_target(row.relation or "", row.direction or ""),
            *map(numbers.percent, (row.share, row.chance)),
            numbers.points(row.share - row.chance),
            numbers.count(row.cases),
            numbers.UNKNOWN if row.verdict == "none" else row.verdict,
        )
        for row in best
    )
    table = (Text(how), Table.of(headers, rows, "A head for each relation")) if best else ()
    chart = Chart("relations", "Share of each relation's cases", lambda: relations(run))
    return Document("Syntax: a head for each relation", (Text(summary, "lede"), *table, chart))


def relations(run: Analysis, limit: int = 20) -> Figure | None:
    """A head for each relation against the best fixed position; None without trees."""
    rows = best_heads(run)[:limit]
    if not rows:
        return None
    return _shares_of(rows, "share of the relation's cases")


def _shares_of(rows: Sequence[TraitStrength], says: str) -> Figure:
    """The shares of chosen heads beside those of the best fixed positions."""
    names = [_in_short(row) for row in rows]
    figure, axes = named_rows(names, (5.6, 0.24), says)
    places = np.arange(len(rows))
    shares, positions = [row.share for row in rows], [row.chance for row in rows]
    colours = [ACCENT if row.is_beyond_chance else MUTED for row in rows]
    axes.hlines(places, positions, shares, color=colours, linewidth=1.6)
    axes.scatter(shares, places, color=colours, s=22, zorder=3, label="head")
    axes.scatter(
        positions, places, marker="|", color=INK, s=60, zorder=3, label="best fixed position"
    )
    for place, row in enumerate(rows):
        axes.text(1.02, place, row.head, va="center", color=MUTED, family="monospace", size=7.5)
    figure.legend(loc="outside upper right", ncols=2)
    return figure


NAMED = 3
"""Largest number of kinds of links that have a sentence of their own."""


def _best_of_links(run: Analysis) -> list[TraitStrength]:
    """The head that was chosen for each kind of link, the clearest first."""
    if not run.record.links:
        return []
    return sorted(
        chosen(run, LINKS.role.name, with_untested=True).values(),
        key=lambda row: (row.verdict == "untested", row.chance - row.share),
    )


def links_document(run: Analysis) -> Document | None:
    """A head for each kind of link, with its numbers; None without links."""
    best = _best_of_links(run)
    if not best:
        return None
    headers = (
        *("link", "head", "finds", "share", "fixed position", "points (90 % interval)"),
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
            Text(links_summary(run), "lede"),
            *(Text(each) for each in _abouts(run.record.links)),
            Text(how),
            table,
            *_of_directions(run),
            Chart(
                "links", "Share of each kind's cases", lambda: _shares_of(best, "share of links")
            ),
        ),
    )


def _of_directions(run: Analysis) -> tuple[Block, ...]:
    """The head with the largest gain for each kind of link and direction, over all texts."""
    rows = list[tuple[str, ...]]()
    for name, words in run.record.links.items():
        for direction in LINK_DIRECTIONS:
            ranked = [
                row
                for row in run.link_rows or ()
                if (row.relation, row.direction) == (name, direction) and row.is_measured
            ]
            if not ranked:
                continue
            best = max(ranked, key=lambda row: row.gain)
            shares = map(numbers.percent, (best.accuracy, best.baseline))
            points, cases = numbers.points(best.gain), numbers.count(best.cases)
            label = relation_label(name, direction, words)
            rows.append((label, best.head, *shares, points, cases))
    if not rows:
        return ()
    how = (
        "Each direction by itself, over all texts. The same texts chose the best of all heads, so "
        "its points are too high by chance, and nothing is tested. ← asks which of all words looks "
        "at a word most."
    )
    headers = ("link", "head", "share", "fixed position", "points", "cases")
    return Text(how), Table.of(headers, rows, "The best head in each direction")


def _row(row: TraitStrength) -> tuple[str, ...]:
    points, low, high = (
        numbers.points(share - row.chance) for share in (row.share, *row.share_interval)
    )
    return (
        _in_short(row),
        row.head,
        target_of(row),
        numbers.percent(row.share),
        numbers.percent(row.chance),
        f"{points} ({low} to {high})",
        numbers.count(row.cases),
        numbers.UNKNOWN if row.verdict == "none" else row.verdict,
    )


@final
class LinksPart(PagePart):
    """The answer about links of one's own, which somebody asked for, on top of the page."""

    def answers(self, run: Analysis) -> Iterable[tuple[str, str]]:
        """Which head finds each kind of links."""
        return (("Links", links_summary(run)),)


PART = LinksPart()


def links_summary(run: Analysis) -> str:
    """A sentence for each of the first kinds of links, and the number of the others."""
    best = _best_of_links(run)
    said = [_sentence(row, run.record.thresholds) for row in best[:NAMED]]
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
        if each.candidate:
            parts.append(f"a key is compared with every {each.candidate}, not with every word")
        if said := "; ".join(filter(None, parts)):
            found.append(f"{name}: {said}.")
    return found
