"""What every part of the package is asked about a model of which every head is known."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import final

import numpy as np

from headcount.artifact import save_compact
from headcount.cache import CacheOptions
from headcount.cache.holding import holding_of
from headcount.cache.scores import GroupScores
from headcount.compaction import compact
from headcount.core import Head, InputError
from headcount.corpora import Corpus
from headcount.explanation import Explained, ExplainOptions, explain
from headcount.importance import CausalGatesOptions, Options, assess, matryoshka
from headcount.importance.gate_sets import gate_sets
from headcount.measures import induction_scores
from headcount.pruning import Units, choose_heads
from headcount.results import RANDOM
from headcount.tasks import evaluate
from headcount.testing import Known, Planted, Purpose
from headcount.vocabulary import Thresholds
from tests.truth.changed import accuracy
from tests.truth.looking import Looking

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
SAMPLES = 2000
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


MARGIN = 0.05
"""How far a strength must be from a threshold, since the half of the texts that is tested has
another one."""


def own_attention(known: Known) -> Iterator[Answer]:
    """Roles and offsets by `analyze`, against what the stock model's own attention says."""
    found, looking = known.analysis(), Looking(known)
    gaps = [_gap(found.offset_shares[str(h)], looking.offsets(h)) for h in known.heads]
    shares = (gap < 2e-3 for gap in gaps)  # of 1,000 queries, two may be ties but for rounding
    yield answer("share at every offset is that of the stock model", shares, known.heads)
    rights: dict[str, list[tuple[bool, str]]] = {"still do so": [], "no longer do so": []}
    for planted in known.program.planted:
        role = known.role_of(planted)
        if role is None or planted.kind == "copy":
            continue
        strength, least = looking.strength(planted), Thresholds().least(role[0])
        if abs(strength - least) > MARGIN:
            which = "still do so" if strength > least else "no longer do so"
            is_named = role in {(e.role, e.offset) for e in found.roles[str(planted.head)]}
            about = f"{planted.head} {planted.kind} {strength:.3f}"
            rights[which].append((is_named is (strength > least), about))
    for which, pairs_of in rights.items():
        named = "named as planted" if which == "still do so" else "not named as planted"
        rights_of = [each for each, _ in pairs_of]
        yield answer(f"heads that {which}: {named}", rights_of, [about for _, about in pairs_of])


def ablated(known: Known) -> Iterator[Answer]:
    """The ranks of heads by ablation alone, and its tests."""
    return scores(known, ("ablation",))


def scores(known: Known, names: tuple[str, ...] = (*SCORES,)) -> Iterator[Answer]:
    """The ranks of heads by some scores, and the tests of ablation."""
    options = Options(names, layers=False, one_left=False, samples=SAMPLES)
    found = assess(known.model, known.task(), options)
    frame, program = found.heads.frame, known.program
    of: dict[Head, Purpose] = {head: program.of(head).purpose for head in known.heads}
    for name in names:
        by_head = dict(zip(known.heads, map(float, frame[SCORES[name]]), strict=True))
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


GATES = CausalGatesOptions(updates=60, update_examples=8)
"""How causal gates are trained here."""


def causal(known: Known) -> Iterator[Answer]:
    """The ranks of heads by both scores that learn gates, and which heads causal gates name."""
    program = known.program
    of: dict[Head, Purpose] = {head: program.of(head).purpose for head in known.heads}
    sets = gate_sets(known.model.model, known.task(), GATES)
    score_H = (sets.facilitating_SH - sets.interfering_SH).mean(0).tolist()
    yield from _ranked("causal gates", dict(zip(sets.heads, score_H, strict=True)), of)
    agreed = {*sets.agreed(sets.facilitating_SH)}
    for purpose, should in (("needed", True), ("idle", False), ("silent", False)):
        heads = [head for head in known.heads if of[head] == purpose]
        what = "facilitating" if should else "not facilitating"
        rights = ((head in agreed) is should for head in heads)
        yield answer(f"causal gates: {purpose} heads {what} in all sets", rights, heads)
    nested = matryoshka(known.model.model, known.task())
    by_head = {head: float(nested[head.layer_id][head.index]) for head in known.heads}
    yield from _ranked("matryoshka", by_head, of)


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
EFFECTS = ("attribution", "zero", "mean", "corrupt", "restored", "estimate")
"""The effects of heads whose best ones make circuits."""


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
            options = ExplainOptions(effects=EFFECTS, circuit=True, together=(2,), draws=1)
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


STREAMING = CacheOptions(sink=1, recent=4)
"""The cache whose groups are asked for."""


def streaming(known: Known) -> Iterator[Answer]:
    """Groups of planted heads that look far, and near, by the scores of caches."""
    if not known.program.is_causal:
        return
    holding = holding_of(known.model.model, known.model.anatomy)
    if sum(holding.counts) < len(known.heads):
        return  # an idle head that looks everywhere shares a group with a planted one
    scores = GroupScores(known.model, known.written, STREAMING)
    names = ("distance", "kvpress") if known.family == "llama" else ("distance",)
    for name in names:
        score = dict(zip(known.heads, scores.of(name).tolist(), strict=True))
        yield from far_above_near(name, known, score)


def far_above_near(name: str, known: Known, score: Mapping[Head, float]) -> Iterator[Answer]:
    """Whether heads that look far have a larger score than those that look near."""
    far, near = list[float](), list[float]()
    for planted in known.program.planted:
        is_near = planted.kind in ("first", "tell") or planted.offset > -STREAMING.recent
        is_near &= planted.kind in ("first", "tell", "offset")  # a gated head else looks at itself
        (near if is_near else far).append(score[planted.head])
    if far and near:
        yield pairs(f"{name}: heads that look far above those that look near", far, near)


# ---------------------------------------------------------------- pruning


NOISE = 0.06
"""Nats by which the loss may change without a head whose mean effect is 0: 4 standard errors."""


def pruned(known: Known) -> Iterator[Answer]:
    """Which heads go first, and what the model can do without them, by every method."""
    program, task = known.program, known.task()
    purposes = {head: program.of(head).purpose for head in known.heads}
    units = Units.of(known.model.anatomy).units
    of_use = {head for head, purpose in purposes.items() if purpose not in WORTHLESS}
    true = {head for unit in units if of_use & {*unit} for head in unit}
    several = {"backup", "undo"} & {*purposes.values()}
    which = ", some back up or undo others" if several else ""
    before, can = evaluate(known.model.model, task).loss, accuracy(known)
    for name in METHODS_ASKED:
        try:
            plan = choose_heads(known.model, task, name, len(true))
        except InputError:  # groups that share keys have no such budget
            continue
        gone = [h for h in known.heads if h.index not in plan.kept[h.site][h.layer]]
        worthless = (purposes[head] in WORTHLESS for head in gone)
        about = [f"{head} {purposes[head]}" for head in gone]
        yield answer(f"{name}{which}: heads that go are idle, silent or noisy", worthless, about)
        with TemporaryDirectory() as folder:
            certificate = save_compact(known.model, plan, folder, Corpus(known.written[:20]), True)
        yield answer(f"{name}: certified", [certificate.is_with_gated], [plan])
        small = replace(known, model=replace(known.model, model=compact(known.model, plan)))
        change = evaluate(small.model.model, task).loss - before
        near = abs(change) < (NOISE if "noise" in {*map(purposes.get, gone)} else 1e-4)
        yield answer(f"{name}{which}: loss unchanged", [near], [f"{change:.4f}"])
        same = accuracy(small) >= can
        yield answer(f"{name}{which}: accuracy unchanged", [same], [f"{accuracy(small)} of {can}"])


QUESTIONS: Mapping[str, Callable[[Known], Iterator[Answer]]] = {
    "roles": roles,
    "attention": own_attention,
    "scores": scores,
    "ablation": ablated,
    "gates": causal,
    "explain": explanations,
    "skills": copying,
    "cache": streaming,
    "prune": pruned,
}
"""The parts of the table."""
