"""Whether roles hold: which are found again on other texts, and how many random weights give."""

import math
from collections import Counter
from collections.abc import Iterator

from headcount import numbers
from headcount.core import Document, Heading, Table, Text, amount, capital
from headcount.pages import NO_ROLE, by_chance, offset_words
from headcount.results import Analysis, Claim, Confirmation, TraitStrength, confirm
from headcount.vocabulary import BORDERLINE, CLEAR, label_of, relation_label, roles_named

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
                "Here: the expected score, which is over both halves of these texts and shrunken "
                "to the mean of all heads. There: the score over both halves of the other texts. "
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
