"""What must hold for every score: laws, truth about planted models, words."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
from jaxtyping import Float

from headcount.core import Progress, silent
from headcount.importance import DENSE, SCORES, Options, Score, assess
from headcount.tasks import Task
from headcount.testing.checks import (
    Failed,
    LeftOut,
    check,
    expect,
    expect_options,
    expect_same,
    expect_words,
    shown,
)
from headcount.testing.examples import FAMILIES, at_random, made_at_random, planted
from headcount.testing.known import Known, auroc
from headcount.testing.laws import leaving_no_trace
from headcount.testing.programs import Family
from headcount.vocabulary import WORTH

Twin = Callable[[Score, Any, Task], Mapping[str, float]]
"""The score again, as slowly as need be: a number for each head by its name, of a score, a model
and a task."""
NUM_TEXTS = 8
"""Number of texts of which laws are checked."""


@dataclass(frozen=True)
class ScoreSubject:
    """A score to check, and its twin."""

    score: Score
    twin: Twin | None = None


def _read(family: Family = "gpt2") -> Known:
    """A random model with a few texts."""
    known = at_random(family)
    return replace(known, texts=known.texts[:NUM_TEXTS])


def _numbers(
    score: Score, known: Known, task: Task | None = None, **how: Any
) -> Float[np.ndarray, " head"]:
    """The score of every head, as an assessment has it."""
    found = assess(known.model, task or known.task(), methods=[score], **how)
    return np.asarray(found.columns[score.column.key], float)


@check("laws")
def numbers(given: ScoreSubject) -> str:
    """Every head of a decoder and of an encoder has a finite number."""
    seen = list[str]()
    for family in FAMILIES:
        known = _read(family)
        found = _numbers(given.score, known)
        unknown = [str(head) for head, x in zip(known.heads, found, strict=True) if np.isnan(x)]
        expect(not unknown, f"{', '.join(unknown)} of {family} have no number (NaN)")
        expect(np.isfinite(found).all(), f"{family} has infinite numbers: {found}")
        seen.append(f"{found.min():.3g} to {found.max():.3g} in {family}")
    return ", ".join(seen)


@check("laws")
def repeats(given: ScoreSubject) -> str:
    """The same question gets the same answer twice."""
    known = _read()
    found, again = (_numbers(given.score, known) for _ in range(2))
    return expect_same(again, found, "when repeated", known.heads, 0.0)


@check("laws")
def batches(given: ScoreSubject) -> str:
    """Which examples share a batch, and their padding, change nothing."""
    if given.score.depends_on_batches:
        raise LeftOut("the score says that it depends on batches")
    known = _read()
    task = known.task()
    found = _numbers(given.score, known, task)
    alone = _numbers(given.score, known, task, max_tokens=int(task.length_N.max()))
    return expect_same(alone, found, "in small batches", known.heads)


@check("laws")
def order(given: ScoreSubject) -> str:
    """The order of examples changes nothing."""
    if given.score.depends_on_batches:
        raise LeftOut("the score says that it depends on batches")
    known = _read()
    backwards = replace(known, texts=known.texts[::-1])
    found, other = (_numbers(given.score, each) for each in (known, backwards))
    return expect_same(other, found, "in another order", known.heads)


class _Killed(BaseException):
    """Ends an assessment as a kill would."""


def _killing(after: int) -> tuple[Progress, list[int]]:
    """Progress that kills after so many calls by the score (0 for never), and counts them."""
    calls = [0]

    def progress(stage: str, *_: object) -> None:
        if stage != DENSE:
            calls[0] += 1
            if calls[0] == after:
                raise _Killed

    return progress, calls


@check("laws")
def resumes(given: ScoreSubject) -> str:
    """A run that was killed halfway and started again has the numbers of one that was not."""
    known = _read()
    counting, calls = _killing(0)
    found = _numbers(given.score, known, progress=counting)
    killing, _ = _killing(max(calls[0] // 2, 1))
    with tempfile.TemporaryDirectory() as folder:
        try:
            _numbers(given.score, known, out=Path(folder), progress=killing)
        except _Killed:
            how = f"after a kill at step {max(calls[0] // 2, 1)} of {calls[0]}"
        else:
            raise LeftOut("it reports no progress, so it can't be killed halfway")
        again = _numbers(given.score, known, out=Path(folder), progress=silent)
    return expect_same(again, found, how, known.heads, 1e-6)


@check("laws")
def trace(given: ScoreSubject) -> str:
    """The model's outputs, weights, hooks and modes are afterwards as they were before."""
    known = replace(_read(), model=made_at_random().model)
    task = known.task()
    inputs = next(iter(task.batches())).inputs
    with leaving_no_trace(known.model.model, dict(inputs)):
        given.score.of(known.model, task)
    return f"{len(known.model.model.state_dict())} weights and all outputs are the same bit for bit"


@check("laws")
def options(given: ScoreSubject) -> str:
    """Options are fields of a frozen dataclass, and one that changes the numbers is signed."""
    kind, usual = type(given.score), given.score
    expect_options(kind)
    signed, known, hints = list[str](), _read(), get_type_hints(kind)
    for field in fields(usual):
        was = getattr(usual, field.name)
        if (changed := _changed(usual, field.name, _others(was, hints[field.name]))) is None:
            continue
        if changed.signed(7) != usual.signed(7):
            signed.append(field.name)
            continue
        found, numbers = (_numbers(each, known) for each in (usual, changed))
        text = f"with {field.name}={getattr(changed, field.name)!r}, which is signed like {was!r}"
        expect_same(numbers, found, text, known.heads, 0.0)
    return f"signed: {', '.join(signed) or 'none, since none changes the numbers'}"


def _changed(usual: Score, option: str, others: Sequence[object]) -> Score | None:
    """The score with the first of some values of an option that it takes."""
    for other in others:
        with suppress(ValueError):
            return replace(usual, **{option: other})
    return None


def _others(usual: Any, hint: Any) -> list[Any]:
    """Other values of an option, or none if its type does not say which there are."""
    if get_origin(hint) is Literal:
        return [each for each in get_args(hint) if each != usual]
    if hint is bool:
        return [not usual]
    if hint is float:
        return [usual / 2, usual + 1, usual + 0.5]
    return [usual + 1, usual - 1] if hint is int else []


@check("truth")
def twin(given: ScoreSubject) -> str:
    """The numbers are those of the slow twin."""
    if given.twin is None:
        raise LeftOut("no twin was given")
    known = _read()
    task = known.task()
    slow = given.twin(given.score, known.model, task)
    expected = np.array([slow[str(head)] for head in known.heads])
    found = _numbers(given.score, known, task)
    return expect_same(found, expected, "by the twin", known.heads, 1e-3)


@check("truth")
def separates(given: ScoreSubject) -> str:
    """In planted models, heads that the task needs score above all that nothing reads."""
    seen = list[str]()
    for family in FAMILIES:
        known = planted(family)
        found = dict(zip(known.heads, _numbers(given.score, known), strict=True))
        needed = [found[head] for head in known.program.needed]
        dead = [found[head] for head in known.heads if head not in known.program.needed]
        text = f"needed {min(needed):.3g} or more, dead {max(dead):.3g} or less in {family}"
        if auroc(needed, dead) < 1:
            raise Failed(text)
        seen.append(text)
    return "; ".join(seen)


@check("words")
def words(given: ScoreSubject) -> str:
    """The column has a name, a meaning and a source, and the document reads well with it."""
    score = given.score
    for column in score.columns():
        expect(column.key.isidentifier(), f"the key {column.key!r} is no name of a column")
        expect_words(f"the label of {column.key}", column.label)
        expect_words(f"the meaning of {column.key}", column.about)
    expect_words(f"the source of {score.column.key}", score.column.source)
    group = score.column.group
    expect(group == WORTH, f"its column is in the group {group!r}, where scores are in {WORTH!r}")
    expect_words("the definition", score.definition, is_sentence=True)
    known = _read()
    found = assess(known.model, known.task(), Options(), methods=[score])
    shown("importance", found)
    return f"{score.column.label}: {score.column.about} ({score.column.source})"


SCORE_CHECKS = (
    *(numbers, repeats, batches, order, resumes, trace, options),
    *(twin, separates, words),
)
"""What is asked of every score."""


def score_subject(given: str | type[Score] | Score, twin: Twin | None = None) -> ScoreSubject:
    """A score as given to `check_score`: its name, its class with default options, or itself."""
    found: Any = SCORES[given] if isinstance(given, str) else given
    return ScoreSubject(found() if isinstance(found, type) else found, twin)
