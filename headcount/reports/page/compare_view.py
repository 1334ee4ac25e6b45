"""The view model of a comparison: what the heads of two runs do, side by side."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from headcount import numbers
from headcount.reports.comparison import Comparison
from headcount.reports.documents.comparison import Found, comparison_parts, key_of
from headcount.reports.kinds import counted, kinds_of, leading, only_second
from headcount.reports.page.grid_view import Grid, grids
from headcount.reports.page.section import Section
from headcount.reports.sentences import headline, measured
from headcount.reports.worth import without
from headcount.results import Analysis, finding
from headcount.vocabulary import TraitEntry

SHORT = {"differ": "heads that differ", "methods": "methods", "matched": "matched heads"}
"""Names in the contents list that are not the titles."""

SHOWN = 4
"""Largest number of findings of a head in each run."""


@final
@dataclass(frozen=True)
class Side:
    """One of the two runs."""

    name: str
    headline: str
    measured: str
    grids: tuple[Grid, ...]


@final
@dataclass(frozen=True)
class HeadPair:
    """What one head does in each run, and what happens without it."""

    head: str
    same: bool
    kinds: tuple[str, str]
    """Keys of what leads it; empty for nothing."""
    does: tuple[tuple[str, ...], tuple[str, ...]]
    without: tuple[str, str]


@final
@dataclass(frozen=True)
class ComparisonView:
    """Everything that the page of a comparison shows."""

    title: str
    headline: str
    sides: tuple[Side, Side]
    kinds: Mapping[str, TraitEntry]
    legend: tuple[TraitEntry, ...]
    """Every kind whose letter the maps show."""
    pairs: tuple[HeadPair, ...]
    """Every head; empty if the runs are over different heads."""
    sections: tuple[Section, ...]
    """What stands below the maps."""
    warnings: tuple[str, ...] = ()
    """What makes numbers of the runs differ besides heads and data."""


def compare_view(
    one: Analysis,
    other: Analysis,
    found: Comparison,
    names: tuple[str, str],
) -> ComparisonView:
    """The view model of a comparison.

    Args:
        one: the first run.
        other: the second run.
        found: the comparison of the two.
        names: names of the runs.
    """
    runs, leads = (one, other), (leading(one), leading(other))
    both = [each for its in leads for each in its.values()]
    kinds = {kind.key: kind for run in runs for kind in kinds_of(run)}
    sides = [
        Side(
            name,
            headline([*its.values()]),
            measured(run.record),
            grids(run, its),
        )
        for run, its, name in zip(runs, leads, names, strict=True)
    ]
    return ComparisonView(
        title=f"{names[0]} and {names[1]}",
        headline=_headline(leads, found),
        sides=(sides[0], sides[1]),
        kinds=kinds,
        legend=tuple(kind for kind, _ in (*counted(both), *only_second(both))),
        pairs=_pairs(runs, leads) if found.is_paired else (),
        sections=tuple(
            Section(key, shown.title, SHORT.get(key, shown.title.lower()), shown)
            for key, shown in comparison_parts(one, other, found, names).items()
        ),
        warnings=found.warnings,
    )


def _headline(leads: tuple[Found, Found], found: Comparison) -> str:
    """How many heads do the same in both runs, beside what chance gives."""
    one, other = leads
    if not found.is_paired:
        return (
            f"The runs are over different heads ({len(one):,} and {len(other):,}), so this page "
            "compares what heads do, not head by head."
        )
    total = len(one)
    same = sum(key_of(one[head]) == key_of(other[head]) for head in one)
    chance = agreement_by_chance([*map(key_of, one.values())], [*map(key_of, other.values())])
    return (
        f"{numbers.count(same)} of {numbers.of(total, 'head', 'heads')} do the same in both "
        f"({numbers.percent(same / total)}; {numbers.percent(chance)} would by chance)."
    )


def agreement_by_chance(one: Sequence[str | None], other: Sequence[str | None]) -> float:
    """Share of heads that would agree if kinds were dealt to heads at random, in both runs.

    The expected agreement of Cohen's kappa.

    >>> agreement_by_chance(["a", "a", "b", "b"], ["a", "b", "b", "b"])
    0.5
    """
    counts = Counter(one), Counter(other)
    return sum(counts[0][kind] * counts[1][kind] for kind in counts[0]) / (len(one) * len(other))


def _pairs(runs: tuple[Analysis, Analysis], leads: tuple[Found, Found]) -> tuple[HeadPair, ...]:
    rows = zip(runs[0].rows, runs[1].rows, strict=True)
    return tuple(
        HeadPair(
            a.head,
            key_of(leads[0][a.head]) == key_of(leads[1][a.head]),
            (key_of(leads[0][a.head]) or "", key_of(leads[1][a.head]) or ""),
            (_does(runs[0], a.head, leads[0]), _does(runs[1], a.head, leads[1])),
            (without(runs[0], a), without(runs[1], b)),
        )
        for a, b in rows
    )


def _does(run: Analysis, head: str, found: Found) -> tuple[str, ...]:
    """Roles and tendencies of a head, what leads it first."""
    leads = found[head]
    if leads is None:
        return ()
    order = {"role": 0, "tendency": 1}
    traits = [each for each in (run.traits or {}).get(head, ()) if each.verdict in order]
    traits.sort(key=lambda each: (order[each.verdict], -each.strength))
    texts = [f"{leads.verdict}: {leads.says}"]
    texts += [f"{each.verdict}: {finding(each)}" for each in traits]
    return tuple(dict.fromkeys(texts))[:SHOWN]
