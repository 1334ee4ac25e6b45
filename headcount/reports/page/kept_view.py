"""Which heads are kept: in a pruned model, and at each budget of a curve by its best method."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import final

from headcount.reports import numbers
from headcount.reports.kinds import Kind, Leading, counted
from headcount.reports.names import SITE_TITLES
from headcount.reports.page.answer_view import best_method
from headcount.results import Analysis

NEITHER = "neither role nor tendency"


@final
@dataclass(frozen=True)
class Keeping:
    """One choice of heads that the map can show."""

    key: str
    label: str
    """Text of its button."""
    about: str
    """What chose the heads."""
    source: str
    """What stands before its button; empty if that is said by the one before."""
    kept: tuple[str, ...]
    """Names of the kept heads."""
    method: str = ""
    """The curve's method; empty for the choice of the pruned model."""


@final
@dataclass(frozen=True)
class KeptRow:
    """Heads of one kind or site: how many there are, and how many are kept by each choice."""

    kind: Kind | None
    label: str
    total: int
    kept: tuple[tuple[int, float], ...]
    """Number and share of the kept heads, by choice."""


def keepings(run: Analysis) -> tuple[Keeping, ...]:
    """Every choice of heads that the folder holds, the pruned model's first."""
    return (*_pruned(run), *curve_keepings(run))


def _pruned(run: Analysis) -> tuple[Keeping, ...]:
    if run.pruned is None:
        return ()
    by = "" if run.pruned.choice is None else f", chosen by {run.pruned.choice.method_used}"
    kept = numbers.count(len(run.pruned.kept))
    about = f"The pruned model keeps {kept} of {numbers.of(len(run.rows), 'head', 'heads')}{by}."
    return (Keeping("pruned", kept, about, "pruned model", run.pruned.kept),)


def curve_keepings(run: Analysis) -> tuple[Keeping, ...]:
    """The choices of the best method of a curve, the most heads first; none without a curve."""
    method = None if run.curve is None else best_method(run.curve.points)
    if run.curve is None or method is None:
        return ()
    total = run.curve.points.dense.keep
    chosen = [each for each in run.curve.points.first_seed(method) if each.heads]
    points = [each for each in reversed(chosen) if each.keep < total]
    everything = numbers.of(total, "head", "heads")
    return tuple(
        Keeping(
            f"keep-{point.keep}",
            numbers.count(point.keep),
            f"{numbers.count(point.keep)} of {everything} kept by {method}.",
            "" if number else f"by {method}",
            tuple(map(str, point.heads)),
            method,
        )
        for number, point in enumerate(points)
    )


def fates(run: Analysis, shown: Sequence[Keeping]) -> dict[str, str]:
    """Where each head is kept, in a sentence; empty without any choice."""
    return {row.head: " ".join(_fate(row.head, shown)) for row in run.rows}


def _fate(head: str, shown: Sequence[Keeping]) -> list[str]:
    found = []
    for each in shown:
        if each.key == "pruned":
            verb = "keeps it" if head in each.kept else "is without it"
            found.append(f"The pruned model {verb}.")
    budgets = [each for each in shown if each.key != "pruned"]
    kept, gone = (
        [each.label for each in budgets if (head in each.kept) is wanted]
        for wanted in (True, False)
    )
    if budgets:
        parts = [f"keeps it among {numbers.listed(kept)} heads"] if kept else []
        parts += [f"prunes it at {numbers.listed(gone)}"] if gone else []
        found.append(f"The curve's best method, {budgets[0].method}, {' and '.join(parts)}.")
    return found


def kept_rows(
    run: Analysis, found: Mapping[str, Leading | None], choices: Sequence[Collection[str]]
) -> tuple[KeptRow, ...]:
    """How many heads of each kind, and of each site, are kept by each choice."""
    kinds = {head: leads.kind.key if leads else None for head, leads in found.items()}
    groups: list[tuple[Kind | None, str, list[str]]] = [
        (kind, kind.label, [head for head in kinds if kinds[head] == kind.key])
        for kind, _ in counted(found.values())
    ]
    groups.append((None, NEITHER, [head for head in kinds if not kinds[head]]))
    if len(run.sites) > 1:
        groups += [
            (None, SITE_TITLES.get(site, site), [row.head for row in rows])
            for site, rows in run.by_site()
        ]
    return tuple(_kept_row(*group, choices) for group in groups if group[2])


def _kept_row(
    kind: Kind | None, label: str, heads: list[str], choices: Sequence[Collection[str]]
) -> KeptRow:
    counts = [Counter(head in choice for head in heads)[True] for choice in map(set, choices)]
    return KeptRow(kind, label, len(heads), tuple((n, n / len(heads)) for n in counts))
