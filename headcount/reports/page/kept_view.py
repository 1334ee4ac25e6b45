"""Which heads are kept: in a pruned model, and at each budget of a curve by its best method."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from headcount import numbers
from headcount.core import Document, Heading, Text
from headcount.reports.documents.counts import kept_table
from headcount.reports.documents.curve import curve_document
from headcount.reports.page.opening import best_method, pruning_answer
from headcount.results import Analysis


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


def curve_shown(run: Analysis) -> Document | None:
    """The document of the curve, and what the heads do that its best method keeps.

    None without a curve, or if it has no number.
    """
    found = run.curve
    if found is None or not found.points.keeps or not pruning_answer(run):
        return None
    shown = curve_document(found, {row.head: row.roles for row in run.rows})
    blocks = (Text(pruning_answer(run), "lede"), *shown.blocks)
    choices = curve_keepings(run)
    if choices:
        kept = {each.label: each.kept for each in choices}
        title = f"What {choices[0].method} keeps"
        blocks += (Heading(title), kept_table(run, kept, title))
    return replace(shown, blocks=blocks).ending(found.record.warnings, found.record.signature)
