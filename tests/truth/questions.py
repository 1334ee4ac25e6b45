"""What every part of the package is asked about a model of which every head is known."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from headcount.core import Head
from headcount.importance import Options, assess
from headcount.testing import Planted, Purpose
from tests.truth.answers import Known

WORTHLESS: tuple[Purpose, ...] = ("idle", "silent", "noise")
SCORES = {
    "ablation": "ablation_delta",
    "gradient": "gradient",
    "relevance": "relevance",
    "norm": "norm_score",
    "sink": "sink_score",
    "fisher": "fisher",
}
"""The column of each score."""
ALPHA = 0.05
CASES = 100
"""Least number of cases of a role that is asked for."""


@final
@dataclass(frozen=True)
class Answer:
    """How often one question was answered rightly in one model."""

    question: str
    right: float
    asked: int
    wrong: tuple[str, ...] = ()
    """What was wrong, in words."""


def answer(question: str, rights: Iterable[bool], names: Iterable[object]) -> Answer:
    """The answers about some heads."""
    pairs = [*zip(rights, map(str, names), strict=True)]
    wrong = tuple(name for is_right, name in pairs if not is_right)
    return Answer(question, len(pairs) - len(wrong), len(pairs), wrong)


def roles(known: Known) -> Iterator[Answer]:
    """Roles, offsets and their shares, by `analyze`."""
    found, program = known.analysis(), known.program
    named = {
        head: {(each.role, each.offset) for each in found.roles[str(head)]} for head in known.heads
    }
    cases = {
        (row.head, row.role): row.cases for rows in (found.traits or {}).values() for row in rows
    }
    asked = list[Planted]()
    for planted in program.planted:
        role = known.role_of(planted)
        if role and cases.get((str(planted.head), role[0]), 0) >= CASES:
            asked.append(planted)
    for is_silent in (False, True):
        some = [each for each in asked if (each.purpose == "silent") is is_silent]
        what = "silent heads named" if is_silent else "planted heads named"
        yield answer(what, (known.role_of(each) in named[each.head] for each in some), some)
    yield answer(
        "planted heads named, and nothing else",
        (named[each.head] == {known.role_of(each)} for each in asked),
        [(each, sorted(map(str, named[each.head]))) for each in asked],
    )
    idle = [head for head in known.heads if program.of(head).kind in ("idle", "mean")]
    yield answer("idle heads without a name", (not named[head] for head in idle), idle)
    looking = [each for each in program.planted if each.kind not in ("idle", "mean")]
    gaps = [_gap(found.offset_shares[str(each.head)], known.offsets(each)) for each in looking]
    yield answer("share at every offset exact", (gap < 1e-6 for gap in gaps), looking)


def _gap(one: Mapping[int, float], other: Mapping[int, float]) -> float:
    return max(abs(one.get(key, 0) - other.get(key, 0)) for key in {*one, *other})


def scores(known: Known, samples: int = 2000) -> Iterator[Answer]:
    """The ranks of heads by every score, and the tests of ablation."""
    options = Options((*SCORES,), layers=False, one_left=False, samples=samples)  # type: ignore[arg-type]
    found = assess(known.model, known.task(), options)
    frame, program = found.heads.frame, known.program
    of: dict[Head, Purpose] = {head: program.of(head).purpose for head in known.heads}
    for name, column in SCORES.items():
        by_head = dict(zip(known.heads, map(float, frame[column]), strict=True))
        yield from _ranked(name, by_head, of)
    ablation = found.record.ablation
    assert ablation is not None
    p = dict(zip(known.heads, ablation.p_each, strict=True))
    p_holm = dict(zip(known.heads, frame["ablation_p"], strict=True))
    delta = dict(zip(known.heads, frame["ablation_delta"], strict=True))
    for purpose in ("noise", "backup"):
        null = [head for head in known.heads if of[head] == purpose]
        yield answer(f"{purpose}: p > .05", (p[head] > ALPHA for head in null), null)
    null = [head for head in known.heads if of[head] in ("idle", "silent")]
    rejected = (not (p[head] <= ALPHA and abs(delta[head]) > 1e-6) for head in null)
    yield answer("idle and silent: p > .05, or an effect below 1e-6", rejected, null)
    needed = [head for head in known.heads if of[head] in ("needed", "undo")]
    hits = [bool(p_holm[head] <= ALPHA and delta[head] > 0) for head in needed]
    yield answer("needed: p <= .05 after correction", hits, needed)
    expected = known.true_effects()
    near = [abs(delta[head] - expected[head]) < 0.15 for head in known.heads]
    yield answer("loss without the head within 0.15 nats", near, known.heads)


def _ranked(name: str, score: Mapping[Head, float], of: Mapping[Head, Purpose]) -> Iterator[Answer]:
    below = [score[head] for head in of if of[head] in WORTHLESS]
    for purpose in ("needed", "undo", "backup"):
        above = [score[head] for head in of if of[head] == purpose]
        if above and below:
            yield pairs(f"{name}: {purpose} above worthless", above, below)


def pairs(question: str, above: Sequence[float], below: Sequence[float]) -> Answer:
    """How many pairs are in the right order; ties count half."""
    difference = np.subtract.outer(above, below)
    return Answer(question, float((np.sign(difference) / 2 + 0.5).sum()), difference.size)


QUESTIONS: Mapping[str, Callable[[Known], Iterator[Answer]]] = {"roles": roles, "scores": scores}
"""The parts of the table."""
