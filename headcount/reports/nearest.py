"""Nearest: how close the best head comes to a role of the paper that no head has."""

from collections.abc import Callable, Mapping

from headcount.reports.run import HeadRow, Run
from headcount.roles import NOT_SYNTAX, Thresholds


def nearest(run: Run, role: str) -> str | None:
    """A sentence on the head that comes nearest; None if that was not measured.

    Args:
        run: results of a run in which no head has the role.
        role: `positional`, `syntactic` or `rare`.
    """
    return _SENTENCES[role](run, Thresholds.of(run.info))


def _positional(run: Run, limits: Thresholds) -> str | None:
    best = _highest(run, "positional_share")
    return best and (
        f"No head looks most at the same offset for {limits.positional_share:.0%} of its "
        f"tokens: {best.head} comes nearest with {best.values['positional_share']:.0%} at "
        f"offset {int(best.values['positional_offset']):+d}."
    )


def _rare(run: Run, limits: Thresholds) -> str | None:
    best = _highest(run, "rare2_share")
    return best and (
        f"No head looks most at one of the two rarest tokens for {limits.rare2_share:.0%} of its "
        f"tokens: {best.head} comes nearest with {best.values['rare2_share']:.0%}."
    )


def _syntactic(run: Run, limits: Thresholds) -> str | None:
    enough = [
        each
        for each in run.relations or ()
        if each.cases >= limits.syntactic_cases and each.relation not in NOT_SYNTAX
    ]
    best = max(
        enough,
        key=lambda each: limits.syntactic_excess(each.accuracy, each.baseline),
        default=None,
    )
    return best and (
        f"No head finds a relation {limits.syntactic_words} more often than the "
        f"best fixed offset: {best.head} comes nearest with {best.relation} {best.direction}, "
        f"{best.accuracy:.0%} against {best.baseline:.0%}."
    )


def _highest(run: Run, column: str) -> HeadRow | None:
    """The head with the highest number; None if no head has one."""
    known = [row for row in run.heads if row.values.get(column, float("nan")) >= 0]
    return max(known, key=lambda row: row.values[column], default=None)


_SENTENCES: Mapping[str, Callable[[Run, Thresholds], str | None]] = {
    "positional": _positional,
    "syntactic": _syntactic,
    "rare": _rare,
}
