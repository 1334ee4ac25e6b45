"""Whether roles hold: which are found again on other texts, and how many random weights give."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from headcount import numbers
from headcount.core import Document, Heading, InputError, Table, Text, amount, capital
from headcount.pages import NO_ROLE, by_chance, offset_words
from headcount.results import (
    MOST_TEXTS,
    READING,
    SAME_MODEL,
    Analysis,
    BothHalves,
    RunRecord,
    TraitStrength,
    kind_of_trait,
)
from headcount.statistics import holm
from headcount.vocabulary import (
    BORDERLINE,
    CLEAR,
    OF_RELATIONS,
    Thresholds,
    label_of,
    relation_label,
    roles_named,
)

MOST_SHARED = 0.01
"""Largest share of the confirming texts that the first analysis may have read, too: short texts,
such as "Thank you.", are in any two corpora."""

Outcome = Literal["found again", "not found again", "not tested"]
"""What the other texts say of a role."""


@final
@dataclass(frozen=True)
class Claim:
    """A role of a head, by one of the traits that give it, and what other texts say of it."""

    trait: TraitStrength
    """The trait in the first analysis."""
    certainty: str | None
    """`clear` or `borderline` there; None if it is unknown."""
    here: float
    """Expected score by the first analysis."""
    there: float
    """Score on the other texts, over both of their halves; NaN if it is unknown."""
    threshold: float
    """Least score of the role."""
    outcome: Outcome
    why: str = ""
    """Why it was not tested, or what the head does there; empty if the scores say it."""


@final
@dataclass(frozen=True)
class Confirmation:
    """The roles of an analysis, confronted with another one."""

    one: RunRecord
    """Record of the analysis that found the roles."""
    other: RunRecord
    """Record of the analysis on other texts."""
    claims: tuple[Claim, ...]
    """Roles by trait, in the order of the heads."""
    warnings: tuple[str, ...]
    """What could not be checked, and texts that both analyses read."""

    def number(self, outcome: Outcome, **wanted: str) -> int:
        """Number of claims with an outcome, perhaps of one `certainty` and one `role`."""
        return sum(
            each.outcome == outcome
            and wanted.get("certainty", each.certainty) == each.certainty
            and wanted.get("role", each.trait.role) == each.trait.role
            for each in self.claims
        )


def confirm(one: Analysis, other: Analysis) -> Confirmation:
    """Say which roles of an analysis are found again on other texts.

    A role is found again if its trait reaches the first analysis's threshold over both halves of
    the other texts, and passes the test there, after Holm's correction for the roles asked about.
    A relation for which the other texts chose another direction or subtype, or which has too few
    cases in one of their halves, counts by its accuracy on all of them.

    Args:
        one: the analysis that found the roles.
        other: an analysis of the same model, made in the same way, on other texts.

    Raises:
        InputError: if the other analysis is of another model, was made in another way, or read the
            same texts; or if the first is of an earlier version, without strengths of traits.
    """
    parts = SAME_MODEL | READING
    warnings = one.record.signed.check_same(other.record.signed, parts)
    warnings += _overlap(one, other)
    if one.traits is None or other.traits is None:
        raise InputError(
            "Expected analyses with profiles.parquet, got one of an earlier version. Run "
            "`headcount analyze` again."
        )
    limits = one.record.thresholds
    claimed = [row for rows in one.traits.values() for row in rows if row.verdict == "role"]
    found = {row.key: row for rows in other.traits.values() for row in rows}
    pairs = [(row, found.get(row.key)) for row in claimed]
    passes = _passing(pairs, limits.test_alpha)
    claims = []
    for (row, there), passed in zip(pairs, passes, strict=True):
        seen = _seen(row, there, other, limits)
        threshold = limits.least(kind_of_trait(row).role)
        outcome: Outcome = "not found again" if seen.is_tested else "not tested"
        if passed and round(seen.score, 9) >= threshold:
            outcome = "found again"
        here = one.expected.get(row.key, row.score)
        certainty = limits.certainty(vars(row))
        claims.append(Claim(row, certainty, here, seen.score, threshold, outcome, seen.why))
    return Confirmation(one.record, other.record, tuple(claims), warnings)


@final
@dataclass(frozen=True)
class _Seen:
    """What the other texts show of a trait."""

    score: float
    why: str = ""
    is_tested: bool = True


def _seen(
    row: TraitStrength, there: TraitStrength | None, other: Analysis, limits: Thresholds
) -> _Seen:
    if kind_of_trait(row).needs == "repeats":
        return _Seen(math.nan, "measured on random tokens, not on texts", is_tested=False)
    if there is None or there.verdict == "untested":
        if row.relation is not None:
            return _of_relation(row, there, other, limits)
        return _Seen(math.nan, _why_untested(row, there, other.record), is_tested=False)
    if not _is_same(row, there):
        if row.relation is not None:
            return _of_relation(row, there, other, limits)
        where = (
            there.direction if there.offset is None else f"offset {numbers.signed(there.offset)}"
        )
        return _Seen(math.nan, f"looks most at {where} there")
    both = BothHalves.of(there)
    return _Seen(there.score if both is None else both.score(limits, there))


def _is_same(row: TraitStrength, there: TraitStrength) -> bool:
    """Whether both analyses chose the same offset, or relation and direction."""
    one, other = ((each.offset, each.relation, each.direction) for each in (row, there))
    return one == other


def _of_relation(
    row: TraitStrength, there: TraitStrength | None, other: Analysis, limits: Thresholds
) -> _Seen:
    """The accuracy on all other texts of the relation and direction that were chosen here."""
    key = (row.head, row.relation, row.direction)
    least = limits.least_cases(row.role)
    rows = (
        each
        for each in other.rows_of_role(row.role)
        if (each.head, each.relation, each.direction) == key
    )
    found = next(rows, None)
    if found is None:
        return _Seen(math.nan, _why_untested(row, there, other.record), is_tested=False)
    if found.cases < least:
        return _Seen(math.nan, f"fewer than {least} cases there", is_tested=False)
    score = limits.excess(row.role, found.accuracy, found.baseline)
    why = "too few cases in half of the texts there, so all count"
    if there is not None and not _is_same(row, there):
        why = "another direction or subtype was chosen there"
    return _Seen(score, why)


def _why_untested(row: TraitStrength, there: TraitStrength | None, other: RunRecord) -> str:
    """Why a trait could not be tested on other texts."""
    names = (row.trait,) if row.relation is None else (row.trait, OF_RELATIONS[row.role].key)
    for reason in (other.untested.get(name) for name in names):
        if reason is not None and reason.role == row.role:
            return reason.says
    if there is None:
        return "no case there"
    return f"{amount(there.cases, 'case')} in {amount(there.units, 'text')} there"


def _passing(
    pairs: Sequence[tuple[TraitStrength, TraitStrength | None]], alpha: float
) -> list[bool]:
    """Whether each role passes the test there, corrected for all that are tested in the same cell.

    A relation that has no test there counts by its accuracy alone.
    """
    known = [
        there.p
        if there is not None and there.verdict != "untested" and _is_same(row, there)
        else math.nan
        for row, there in pairs
    ]
    is_tested = ~np.isnan(known)
    passes = np.ones(len(known), dtype=bool)
    passes[is_tested] = holm(np.array(known)[is_tested]) <= alpha
    return passes.tolist()


def _overlap(one: Analysis, other: Analysis) -> tuple[str, ...]:
    """Check that two analyses read different texts; warnings if some are the same or unknown.

    Raises:
        InputError: if they read the same corpus, or more than `MOST_SHARED` of the texts.
    """
    names = ", ".join(other.record.corpora)
    if one.record.signed.get("corpus") == other.record.signed.get("corpus"):
        raise InputError(
            f"Expected other texts than those of the first analysis, got {names}, the same ones. "
            "Analyse another corpus of this kind, and give its folder."
        )
    if one.texts is None or other.texts is None:
        return (
            "texts that both analyses read can't be counted: one of them is of an earlier version",
        )
    hashes = [set(each.texts["text"].tolist()) for each in (one, other)]  # type: ignore[index]
    # Of a large corpus the smallest hashes are kept, so they are compared up to the smaller end
    ends = [max(each) for each in hashes if len(each) == MOST_TEXTS]
    compared = {text for text in hashes[1] if not ends or text <= min(ends)}
    shared = len(compared & hashes[0])
    counted = f"{shared:,} of {amount(len(compared), 'different text')}"
    if shared > MOST_SHARED * len(compared):
        raise InputError(
            f"Expected other texts than those of the first analysis, got {names}, of which the "
            f"first analysis read {counted}, too. Leave these out and analyse again."
        )
    return (f"{counted} were read by the first analysis, too",) if shared else ()


_CERTAINTIES = (CLEAR, BORDERLINE)
_SHORT = {"found again": "yes", "not found again": "no", "not tested": "not tested"}


def confirmation_document(found: Confirmation) -> Document:
    """The document of a confirmation, with its warnings and the other texts' signature."""
    return Document(
        "Roles found again on other texts",
        (
            Text(_lede(found), "lede"),
            Text(
                "A role counts by each trait that gives it, so a syntactic head counts for each of "
                "its relations. It is found again if its score there reaches the threshold and "
                "passes the test. Borderline roles are those whose interval here includes values "
                "below the threshold."
            ),
            Heading("Roles found again"),
            Table.of(
                ("role", "clear", "found again", "borderline", "found again", "not tested"),
                _by_role(found),
            ),
            Heading("Roles by head"),
            Text(
                "Here: the expected score, over both halves of these texts, shrunk towards the "
                "mean of all heads. There: the score over both halves of the other texts. "
                "Scores of relations are gains over the best fixed offset."
            ),
            Table.of(
                ("head", "looks for", "role", "here", "there", "threshold", "again", "why"),
                map(_cells, found.claims),
            ),
        ),
    ).ending(found.warnings, found.other.signature)


def _lede(found: Confirmation) -> str:
    """How many roles are found again, of those that could be tested."""
    again, not_again, untested = (
        found.number(each) for each in ("found again", "not found again", "not tested")
    )
    texts = amount(found.other.counts.sentences, "text")
    where = f"{', '.join(found.other.corpora)} ({texts})"
    if not found.claims:
        return f"No head has a role, so there is none to find again on {where}."
    left = f" {capital(numbers.count(untested))} could not be tested there." if untested else ""
    if not again + not_again:
        return f"No role could be tested on {where}."
    parts = [
        f"{numbers.count(found.number('found again', certainty=each))} of "
        f"{numbers.count(_tested(found, certainty=each))} {each} ones"
        for each in _CERTAINTIES
        if _tested(found, certainty=each)
    ]
    of_which = f": {numbers.listed(parts)}" if parts else ""
    return (
        f"Of {amount(again + not_again, 'role')}, {numbers.count(again)} "
        f"{'is' if again == 1 else 'are'} found again on {where}{of_which}.{left}"
    )


def _tested(found: Confirmation, **wanted: str) -> int:
    return found.number("found again", **wanted) + found.number("not found again", **wanted)


def _by_role(found: Confirmation) -> Iterator[list[str]]:
    """Tested and found again, clear and borderline, for each role."""
    for role in dict.fromkeys(each.trait.role for each in found.claims):
        counts = [
            str(count)
            for each in _CERTAINTIES
            for count in (
                _tested(found, role=role, certainty=each),
                found.number("found again", role=role, certainty=each),
            )
        ]
        yield [role, *counts, str(found.number("not tested", role=role))]


def _cells(each: Claim) -> list[str]:
    scores = (each.here, each.there, each.threshold)
    return [
        *(each.trait.head, _what(each.trait), each.certainty or ""),
        *(numbers.UNKNOWN if math.isnan(score) else f"{100 * score:.1f} %" for score in scores),
        *(_SHORT[each.outcome], each.why),
    ]


def _what(trait: TraitStrength) -> str:
    """What the head looks for, in few words: `first token`, `nsubj, dependent→head`."""
    if trait.relation is not None:
        return relation_label(trait.relation, trait.direction or "", trait.words)
    if trait.trait == "offset" and trait.offset is not None:
        return offset_words(trait.offset)
    return trait.direction or label_of(trait.trait)


def chance_document(run: Analysis) -> Document | None:
    """Every role that occurs with its number of heads; None without a null run."""
    if run.null_rows is None:
        return None
    found, random = ([row.roles for row in heads] for heads in (run.rows, run.null_rows))
    counts = [Counter(name for head in heads for name in {*head}) for heads in (found, random)]
    rows = [
        (role.name, *(numbers.count(each[name]) for each in counts))
        for name, role in roles_named(name for head in [*found, *random] for name in head).items()
    ]
    without = (numbers.count(sum(not head for head in heads)) for heads in (found, random))
    return Document(
        "Is it more than chance?",
        (
            Text(by_chance(random), "lede"),
            Table.of(
                ("role", "this model", "random weights"),
                [*rows, (NO_ROLE, *without)],
                "Number of heads with each role",
            ),
        ),
    )


def confirmed_shown(run: Analysis) -> Document | None:
    """Roles on other texts; None unless an analysis of such was named."""
    if run.confirming is None:
        return None
    return confirmation_document(confirm(run, run.confirming))
