"""Explaining predictions: which heads made a model say what it says, one by one and together."""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

import numpy as np
from jaxtyping import Float
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from headcount.core import (
    OURS,
    ChangedModelError,
    Head,
    InputError,
    Origin,
    PluginError,
    Progress,
    is_alone,
    short_hash,
    silent,
)
from headcount.corpora import Corpus
from headcount.explanation.attribution import written
from headcount.explanation.backups import with_backups
from headcount.explanation.circuits import elsewhere_of, ends_of
from headcount.explanation.effects import EFFECTS
from headcount.explanation.options import ExplainOptions
from headcount.explanation.plan import Plan
from headcount.explanation.positions import with_positions
from headcount.explanation.prompt_runs import known
from headcount.explanation.prompts import Prompt, prompts_of
from headcount.explanation.reader import Reader
from headcount.explanation.reason_rows import with_looks
from headcount.explanation.result import Explained, WrittenRow
from headcount.explanation.runs import Case, Row, rows_at_once
from headcount.explanation.searching import Search, ordered, with_circuits
from headcount.explanation.singles import Singles
from headcount.explanation.together import with_joint
from headcount.models import Loaded, as_loaded, check_has_heads, check_memory, signature, unchanged

WRITTEN = 5
"""Number of tokens that a head promotes, and that it demotes, which are kept."""
SOUGHT = 4
"""Number of tokens that are looked at for each that is kept; parts of a letter are skipped."""
NO_TEXT = "\ufffd"
"""What a tokenizer writes for bytes that are no letter by themselves."""
TEXTS = 64
"""Largest number of texts over which outputs are averaged."""


def explain(
    loaded: Loaded | PreTrainedModel,
    prompt: str | Sequence[Prompt],
    target: str | None = None,
    against: str | None = None,
    corrupt: str | None = None,
    options: ExplainOptions | None = None,
    *,
    texts: Corpus | None = None,
    scores: Mapping[str, Mapping[Head, float]] | None = None,
    elsewhere: Sequence[Prompt] = (),
    tokenizer: PreTrainedTokenizerBase | None = None,
    progress: Progress = silent,
) -> Explained:
    """Measure by how much every head raises what a model predicts, alone and with others.

    >>> headcount.explain(loaded, "The capital of France is", " Paris", " Rome")  # doctest: +SKIP

    Args:
        loaded: a model that predicts tokens or labels of a text, as `load` gives it, or a plain
            one.
        prompt: what it reads; or several prompts with their targets, as `read_prompts` gives them.
        target: the continuation, filling or label that is explained.
        against: its rival; without one, the log-probability of the target is explained.
        corrupt: a second prompt, with another answer.
        options: how the prediction is read, and which effects are measured.
        texts: what heads' mean outputs are over; the prompts by default.
        scores: scores of all heads by name, measured on other data, whose best heads make circuits
            beside those of the effects; higher scores are kept.
        elsewhere: prompts of other templates, on which the stable circuit is measured, too.
        tokenizer: tokenizer of a plain model.
        progress: called with the number of prompts done.

    Returns:
        A row for each head and effect, for each number of best heads, and for each prompt.

    Raises:
        InputError: for prompts, targets or heads that can't be used; says why.
        ModelError: for a model that predicts neither tokens nor labels.
    """
    loaded, options, begun = as_loaded(loaded, tokenizer), options or ExplainOptions(), time.time()
    check_has_heads(loaded)
    prompts = prompts_of(prompt, target, against, corrupt)
    reader = Reader(loaded, options)
    cases, unknown = [reader.case(each) for each in prompts], ""
    others = [reader.case(each) for each in _elsewhere(elsewhere, options)]
    if options.known:
        cases, unknown = known(loaded, cases)
        others = known(loaded, others)[0] if others else others
    given, read = ordered(loaded, options, scores or {}), _texts(reader, texts)
    _check_memory(loaded, [*cases, *others], read)
    signed = signature(loaded, _hash([*prompts, *elsewhere]), **_signed(options, texts, given))
    plan_without = partial(Plan.of, loaded, cases, options, read)
    found, failed = _kept(
        plan_without, lambda plan: _explained(plan, reader.kind, given, others, progress)
    )
    warned = (*filter(None, [unknown]), *found.record.warnings, *failed)
    timings = {"all": time.time() - begun}
    record = replace(found.record, signature=signed, timings=timings, warnings=warned)
    return replace(found, record=record)


def _kept(
    plan_without: Callable[[dict[object, str]], Plan], explained: Callable[[Plan], Explained]
) -> tuple[Explained, tuple[str, ...]]:
    """What is measured without the effects of plug-ins that fail, and a sentence for each.

    Raises:
        PluginError: if the others can't be measured without one.
    """
    failed = dict[object, str]()
    while True:
        plan = plan_without(failed)
        try:
            with unchanged(plan.loaded, _origin(plan), restores=True):
                return explained(plan), tuple(dict.fromkeys(failed.values()))
        except PluginError as error:
            out = _left_out(plan, error)
            left = "It is left out." if len(out) == 1 else "All of them are left out."
            failed |= dict.fromkeys(out, f"{error} {left}")


def _origin(plan: Plan) -> Origin:
    """Which plug-ins' effects are measured."""
    origins = dict.fromkeys(EFFECTS.origin_of(type(each)) for each in plan.effects)
    others = [str(each) for each in origins if each != OURS]
    return Origin(" or ".join(others)) if others else OURS


def _left_out(plan: Plan, error: PluginError) -> list[object]:
    """The effect that failed, or if some changed the model, all that could have.

    Raises:
        PluginError: the same, if the others can't be measured without: there are none, circuits
            need it, the model is still changed, or other processes had to agree.
    """
    named, is_changed = [each for each in plan.effects if type(each) is error.thing], False
    if isinstance(error, ChangedModelError):
        named = [each for each in plan.effects if EFFECTS.origin_of(type(each)) != OURS]
        is_changed = not error.is_restored
    is_needed = len(named) == len(plan.effects) or any(each.name in plan.others for each in named)
    if not named or is_needed or is_changed or not is_alone():
        raise error
    return [type(each) for each in named]


def _explained(
    plan: Plan,
    kind: str,
    given: Mapping[str, Float[np.ndarray, " head"]],
    elsewhere: Sequence[Case],
    progress: Progress,
) -> Explained:
    """Measure what is planned: heads one by one, together, and as circuits."""
    ends, faults = ends_of(plan) if plan.options.circuit else ([], [])
    there = elsewhere_of(ends[0].others, elsewhere) if ends and elsewhere else None
    singles = Singles.measured(plan, progress)
    found = singles.explained(kind, faults)
    for part in PARTS:
        found = part(found, singles, progress)
    if not ends:
        return found
    return with_circuits(found, singles, Search(ends, given, there), progress)


def with_written(found: Explained, singles: Singles, progress: Progress) -> Explained:
    """Add what heads write where one prompt's prediction is made, if attribution is exact."""
    plan, rows = singles.plan, list[WrittenRow]()
    heads = {row.part for row in found.effects if row.effect == "attribution"}
    if len(plan.cases) > 1 or not heads:
        return found
    piece, vocabulary = (
        Reader(plan.loaded, plan.options).piece,
        len(plan.loaded.encoder().tokenizer),
    )
    most = min(SOUGHT * WRITTEN, vocabulary)
    for head, each in (written(plan.loaded, plan.cases[0].rows[0], most, vocabulary) or {}).items():
        for side in (each[:most], each[most:]) if str(head) in heads else ():
            pieces = ((piece(token), value) for token, value in side)
            readable = (WrittenRow(str(head), *pair) for pair in pieces if NO_TEXT not in pair[0])
            rows += islice(readable, WRITTEN)
    return replace(found, written=tuple(rows))


PARTS: tuple[Callable[[Explained, Singles, Progress], Explained], ...] = (
    with_joint,
    with_written,
    with_looks,
    with_backups,
    with_positions,
)
"""What is measured once the effects of single heads are known; each adds rows of its own."""


def _elsewhere(elsewhere: Sequence[Prompt], options: ExplainOptions) -> Sequence[Prompt]:
    if elsewhere and not options.circuit:
        raise InputError(
            "Expected a circuit, which is measured on prompts elsewhere, got none. Add --circuit "
            "(circuit=True), or leave --elsewhere out."
        )
    return elsewhere


def _check_memory(loaded: Loaded, cases: Sequence[Case], texts: Sequence[Row]) -> None:
    """Check that a batch of the longest row fits."""
    both = (row for case in cases for row in (*case.rows, *(case.corrupt or ())))
    longest = max(row.length for row in (*both, *texts))
    at_once = rows_at_once(loaded, longest)
    check_memory(loaded, longest, advice="Give shorter prompts", at_once=at_once)


def _texts(reader: Reader, texts: Corpus | None) -> tuple[Row, ...]:
    return () if texts is None else tuple(reader.text(each.text) for each in islice(texts, TEXTS))


def _hash(prompts: Sequence[Prompt]) -> str:
    parts = [each.parts for each in prompts]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _signed(
    options: ExplainOptions, texts: Corpus | None, scores: Mapping[str, Float[np.ndarray, " head"]]
) -> dict[str, object]:
    """What the effects depend on, for the signature."""
    given = b"".join(name.encode() + each_H.tobytes() for name, each_H in scores.items())
    return {
        "effects": ",".join(options.effects) or None,
        "heads": ",".join(options.heads) or None,
        "together": ",".join(map(str, options.together)),
        "circuit": options.circuit or None,
        "units": ",".join(options.units) if options.has_mlps else None,
        "others": ",".join(options.others) or None,
        "scores": short_hash(given, 8) if scores else None,
        "steps": options.learning or None,
        "learners": options.learners if options.learning else None,
        "exact": options.refining or None,
        "draws": options.draws,
        "at": options.at,
        "query": options.query,
        "key": options.key,
        "first": options.first or None,
        "known": options.known or None,
        "chat": options.chat or None,
        "template": "+".join(options.template) or None,
        "texts": None if texts is None else texts.sha256()[:8],
        "seed": options.seed,
    }
