"""What every part of the package is asked about a model of which every head is known."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from headcount.cache import CacheOptions
from headcount.cache.holding import holding_of
from headcount.cache.scores import GroupScores
from headcount.compaction import compact
from headcount.compare import compare
from headcount.core import Head, InputError
from headcount.explanation import Explained, ExplainOptions, explain
from headcount.importance import Options, assess
from headcount.measures import induction_scores
from headcount.pruning import choose_heads
from headcount.results import RANDOM
from headcount.tasks import evaluate
from headcount.testing import Known, Planted, Purpose, planted_model

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
LEVEL = 0.95
METHODS_ASKED = ("ablation", "gradient", "relevance", "norm", "fisher")
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
    expected = known.true_effects()
    for purpose in ("noise", "backup"):  # what a mean reads is not worth exactly nothing
        ours = [head for head in known.heads if of[head] == purpose]
        null = [head for head in ours if abs(expected[head]) < 1e-9]
        yield answer(f"{purpose}: p > .05", (p[head] > ALPHA for head in null), null)
    null = [head for head in known.heads if of[head] in ("idle", "silent")]
    rejected = (not (p[head] <= ALPHA and abs(delta[head]) > 1e-6) for head in null)
    yield answer("idle and silent: p > .05, or an effect below 1e-6", rejected, null)
    needed = [head for head in known.heads if of[head] in ("needed", "undo")]
    hits = [bool(p_holm[head] <= ALPHA and delta[head] > 0) for head in needed]
    yield answer("needed: p <= .05 after correction", hits, needed)
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


# ---------------------------------------------------------------- one prediction

PROMPTS, AT = 12, 8
"""Number of prompts, and least number of tokens before the one that is predicted."""


def circuit_of(known: Known, planted: Planted) -> frozenset[Head]:
    """The heads that make a prediction: a head, its backup, and the one that tells it."""
    assert planted.label is not None
    telling = [each.head for each in known.program.planted if each.kind == "tell"]
    told = telling if planted.kind == "copy" else []
    return frozenset([*(each.head for each in known.program.writers(planted.label)), *told])


def explained(known: Known) -> Iterator[tuple[Planted, frozenset[Head], Explained]]:
    """The explanation of what each planted head makes the model predict."""
    labels = set[int]()
    for planted in known.program.planted:
        purpose, label = planted.purpose, planted.label
        if purpose not in ("needed", "backup") or label is None or label in labels:
            continue
        if planted.kind == "mean":
            continue
        labels.add(label)
        if len(given := known.prompts(planted, PROMPTS, AT + 1)) == PROMPTS:
            options = ExplainOptions(circuit=True, together=(2,), draws=1)
            yield planted, circuit_of(known, planted), explain(known.model, given, options=options)


def explanations(known: Known) -> Iterator[Answer]:
    """Effects and circuits of heads by `explain`, where a program is of a language model."""
    if not known.program.is_causal:
        return
    first, circuits = dict[str, list[tuple[bool, str]]](), dict[str, list[tuple[bool, str]]]()
    for planted, true, found in explained(known):
        names = {*map(str, true)}
        about = f"{planted.kind} {planted.purpose} {planted.head}"
        for effect in sorted({row.effect for row in found.effects if row.is_head}):
            of = {part: row.value for part, row in found.of(effect).items() if row.is_head}
            best = sorted(of, key=lambda head: -of[head])[: len(names)]
            several = "found together" if len(names) > 1 else "first"
            asked = first.setdefault(f"{effect}: {several}", [])
            asked.append(({*best} == names, f"{about}: {' '.join(best)}"))
        for row in found.circuits:
            if row.level == LEVEL and row.ranking != RANDOM:
                held = {*row.names.replace("|", " ").split()}
                asked = circuits.setdefault(f"{row.ranking}: circuit of 95 % is the true one", [])
                asked.append((held == names, f"{about}: {row.names}"))
    for question, asked in (first | circuits).items():
        yield answer(question, *zip(*asked, strict=True))


# ---------------------------------------------------------------- skills, caches


def copying(known: Known) -> Iterator[Answer]:
    """Heads that copy, by repeated random tokens."""
    if not known.program.is_causal:
        return
    frame = induction_scores(known.model, length=28, sequences=8).frame
    for column, kinds in (("induction", ("copy",)), ("previous_token", ("tell", "offset"))):
        score = dict(zip(known.heads, map(float, frame[column]), strict=True))
        asked, rights = list[Planted](), list[bool]()
        for head in known.heads:
            planted = known.program.of(head)
            if planted.is_gated:
                continue
            is_one = planted.kind in kinds and (planted.kind != "offset" or planted.offset == -1)
            asked.append(planted)
            rights.append((score[head] >= 0.5) == is_one)
        yield answer(f"{column} at least .5 for those, and no other", rights, asked)


def streaming(known: Known) -> Iterator[Answer]:
    """Groups of planted heads that look far, and near, by the scores of caches."""
    if not known.program.is_causal:
        return
    holding = holding_of(known.model.model, known.model.anatomy)
    if sum(holding.counts) < len(known.heads):
        return  # an idle head that looks everywhere shares a group with a planted one
    options = CacheOptions(sink=1, recent=4)
    scores = GroupScores(known.model, known.written, options)
    names = ("distance", "kvpress") if known.family == "llama" else ("distance",)
    for name in names:
        score = dict(zip(known.heads, scores.of(name).tolist(), strict=True))
        far, near = list[float](), list[float]()
        for planted in known.program.planted:
            is_near = planted.kind in ("first", "tell") or planted.offset > -options.recent
            is_near &= planted.kind in ("first", "tell", "offset") and not planted.is_gated
            (near if is_near else far).append(score[planted.head])
        if far and near:
            yield pairs(f"{name}: heads that look far above those that look near", far, near)


# ---------------------------------------------------------------- pruning


def pruned(known: Known) -> Iterator[Answer]:
    """Which heads are kept as many as are needed, and what the compact model then does."""
    program = known.program
    true = {each.head for each in program.planted if each.purpose in ("needed", "backup", "undo")}
    task = known.task()
    before = evaluate(known.model.model, task).loss
    for name in METHODS_ASKED:
        try:
            plan = choose_heads(known.model, task, name, len(true))
        except InputError:  # groups that share keys have no such budget
            continue
        kept = {head for head in known.heads if head.index in plan.kept[head.site][head.layer]}
        yield answer(
            f"{name}: keeps the heads that count", [kept == true], [sorted(map(str, kept))]
        )
        if kept == true:
            small = compact(known.model, plan)
            after = evaluate(small, task).loss
            yield answer("compact: loss unchanged", [abs(after - before) < 1e-4], [after - before])


# ---------------------------------------------------------------- two models


def replaced(known: Known) -> Iterator[Answer]:
    """Heads that differ in a second model, in which one planted head does something else."""
    named = [each for each in known.program.planted if known.role_of(each) and each.kind != "tell"]
    if not named or any(each.kind == "copy" for each in named):
        return
    one = named[0]
    other = replace(one, kind="punctuation" if one.kind != "punctuation" else "first")
    planted = tuple(other if each is one else each for each in known.program.planted)
    program = replace(known.program, planted=planted)
    second = replace(known, program=program, model=planted_model(program, known.family, known.seed))
    found = compare(known.analysis(), second.analysis())
    differ = {head for head in map(str, known.heads) if head not in found.same}
    yield answer("the head that was replaced, and no other", [differ == {str(one.head)}], [differ])


QUESTIONS: Mapping[str, Callable[[Known], Iterator[Answer]]] = {
    "roles": roles,
    "scores": scores,
    "explain": explanations,
    "skills": copying,
    "cache": streaming,
    "prune": pruned,
    "compare": replaced,
}
"""The parts of the table."""
