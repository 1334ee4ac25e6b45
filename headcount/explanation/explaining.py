"""Explaining predictions: which heads made a model say what it says, one by one and together."""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    amount,
    is_alone,
    name_of,
    names_a_head,
    short_hash,
    silent,
    sorted_by,
)
from headcount.corpora import Corpus, Noted
from headcount.explanation.attribution import written
from headcount.explanation.backups import backups_of
from headcount.explanation.circuit_rows import Curve, KeptRow, StableRow
from headcount.explanation.circuits import (
    Ends,
    areas_of,
    curves_of,
    ends_of,
    ordered,
    others_of,
    rankings,
)
from headcount.explanation.effects import EFFECTS
from headcount.explanation.matryoshka import learned
from headcount.explanation.options import ExplainOptions
from headcount.explanation.plan import Plan, Singles
from headcount.explanation.positions import HEADS, positions_of
from headcount.explanation.prompt_runs import known
from headcount.explanation.prompts import Prompt, prompts_of
from headcount.explanation.reader import Reader
from headcount.explanation.reason_rows import looks_of
from headcount.explanation.refined import refined
from headcount.explanation.result import (
    UNLIKELY,
    EffectRow,
    Explained,
    ExplanationRecord,
    PromptRow,
    WrittenRow,
)
from headcount.explanation.runs import Case, Row, rows_at_once
from headcount.explanation.stable import (
    kept_rows,
    no_ranking,
    stability_rows,
    stable_circuit,
    stable_rows,
)
from headcount.explanation.together import joint_rows
from headcount.models import (
    Loaded,
    as_loaded,
    check_has_heads,
    check_memory,
    signature,
    unchanged,
)

WRITTEN = 5
"""Number of tokens that a head promotes, and that it demotes, which are kept."""
SOUGHT = 4
"""Number of tokens that are looked at for each that is kept; parts of a letter are skipped."""
NO_TEXT = "\ufffd"
"""What a tokenizer writes for bytes that are no letter by themselves."""
_OF_CIRCUIT = 40
"""Largest number of heads of a stable circuit whose looks are explained."""
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
        plan_without, lambda plan: _explained(reader, plan, given, others, progress)
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
    reader: Reader,
    plan: Plan,
    given: Mapping[str, Float[np.ndarray, " head"]],
    elsewhere: Sequence[Case],
    progress: Progress,
) -> Explained:
    """Measure what is planned: heads one by one, together, and as circuits."""
    options = plan.options
    ends, faults = ends_of(plan) if options.circuit else ([], [])
    singles = Singles.measured(plan, progress)
    joint = tuple(joint_rows(singles, progress))
    rows = tuple(singles.rows())
    found = Explained(
        _record(singles, faults, reader.kind),
        rows,
        joint,
        tuple(singles.layers()),
        tuple(singles.prompts()),
        tuple(singles.alone()),
        tuple(_written(reader, plan.loaded, plan.cases, rows)),
        *looks_of(plan, singles.best(plan.options.reasons), progress),
        backups_of(singles, progress),
        positions_of(plan, singles.best(HEADS), progress),
    )
    if ends:
        taught = learned(ends[0], progress)
        ranked = [*rankings(singles, given), *taught, *refined(singles, taught, ends[0], progress)]
        curves = curves_of(ends, ranked, progress)
        found = _with_circuits(found, ends, singles, curves, elsewhere)
        looks, reasons = looks_of(plan, _of_circuit(found), progress)
        found = replace(found, looks=found.looks + looks, reasons=found.reasons + reasons)
    return found


def _of_circuit(found: Explained) -> list[Head]:
    """The most certain heads of the stable circuit that have no reasons yet."""
    kept = [row for row in found.stable if row.verdict != "out" and names_a_head(row.head)]
    kept = sorted_by(kept, lambda row: row.share, descending=True)[:_OF_CIRCUIT]
    known = {row.head for row in found.looks}
    return [Head.parse(row.head) for row in kept if row.head not in known]


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


def _with_circuits(
    found: Explained,
    ends: Sequence[Ends],
    singles: Singles,
    curves: Sequence[Curve],
    elsewhere: Sequence[Case],
) -> Explained:
    """The explanation with its circuits, and what is stable of the best one."""
    plan, others = singles.plan, ends[0].others
    warnings = (*found.record.warnings, *filter(None, [no_ranking(curves)]))
    record = replace(found.record, nothing=ends[0].row().nothing, warnings=warnings)
    seed, kept, rows = plan.options.seed, list[KeptRow](), list[StableRow]()
    stable = stable_circuit(singles.effects, curves, plan.units, seed)
    if stable is not None:
        kept += kept_rows(stable, plan, others, "these")
        rows += stable_rows(stable, plan, others)
        record = replace(record, stable=stable.ranking, stable_size=stable.size)
        if elsewhere:
            options = replace(plan.options, others=(others.name,))
            there = Plan.of(plan.loaded, elsewhere, options, plan.texts)
            kept += kept_rows(stable, there, others_of(there)[0], "elsewhere")
    return replace(
        found,
        record=record,
        faithfulness=tuple(row for curve in curves for row in curve.rows()),
        circuits=tuple(row for curve in curves for row in curve.circuits()),
        areas=tuple(areas_of(curves)),
        complements=tuple(end.row() for end in ends),
        stability=tuple(stability_rows(singles.effects, curves, seed)),
        stable=tuple(rows),
        kept=tuple(kept),
    )


def _texts(reader: Reader, texts: Corpus | None) -> tuple[Row, ...]:
    return () if texts is None else tuple(reader.text(each.text) for each in islice(texts, TEXTS))


def _written(
    reader: Reader, loaded: Loaded, cases: Sequence[Case], rows: Sequence[EffectRow]
) -> Iterator[WrittenRow]:
    """What the heads write where one prompt's prediction is made, where attribution is exact."""
    heads = {row.part for row in rows if row.effect == "attribution"}
    if len(cases) > 1 or not heads:
        return
    vocabulary = len(loaded.encoder().tokenizer)
    most = min(SOUGHT * WRITTEN, vocabulary)
    found = written(loaded, cases[0].rows[0], most, vocabulary)
    for head, each in (found or {}).items():
        if str(head) in heads:
            for side in (each[:most], each[most:]):
                pieces = ((reader.piece(token), value) for token, value in side)
                readable = ((piece, value) for piece, value in pieces if NO_TEXT not in piece)
                for piece, value in islice(readable, WRITTEN):
                    yield WrittenRow(str(head), piece, value)


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


def _record(singles: Singles, faults: Sequence[str], kind: str) -> ExplanationRecord:
    """What is predicted, and how that was measured."""
    plan = singles.plan
    value, low, high = plan.blocks.within(singles.value_N)
    return ExplanationRecord(
        signature="",
        warnings=(
            *_unlikely([*singles.prompts()], kind),
            *Noted(repeated=sum(each.text.num_repeated > 0 for each in plan.cases)).warnings(),
            *_shared(plan.cases),
            *plan.blocks.warnings(),
            *faults,
        ),
        model=name_of(plan.loaded.name),
        kind=kind,
        first=plan.options.first,
        value=value,
        low=low,
        high=high,
        second=float(np.mean(singles.second_N)),
        logit=singles.logit,
        looks="" if plan.knockout is None else _looks(plan.options, plan.cases),
        means_over=amount(len(plan.texts), "text") if plan.texts else "prompts",
        words={name: EFFECTS[name].words() for name in singles.effects},
    )


def _unlikely(prompts: Sequence[PromptRow], kind: str) -> Iterator[str]:
    """What a reader must know before anything else: that hardly anything was predicted."""
    rows = [row for row in prompts if row.probability < UNLIKELY]
    if not rows:
        return
    row, blank = rows[0], ""
    is_text = kind == "causal-lm" and not row.pictures
    if is_text and row.target[:1].isalnum() and not row.prompt[-1:].isspace():
        blank = f' (did you mean " {row.target}", with a leading blank?)'
    more = "" if len(prompts) == 1 else f" after {row.prompt!r}"
    yield (
        f"the model gives “{row.target}” a probability of {row.probability:.0e}{more}, less than "
        f"{UNLIKELY:.0e}, in {amount(len(rows), 'prompt')} of {len(prompts)}, so what is explained "
        f"was hardly predicted{blank}"
    )


def _shared(cases: Sequence[Case]) -> Iterator[str]:
    """Which tokens target and rival begin with, if some do."""
    if found := [case for case in cases if case.shared]:
        yield (
            f"target and rival both begin with {found[0].shared!r} in "
            f"{amount(len(found), 'prompt')} of {len(cases)}; these tokens add nothing to the "
            "difference"
        )


def _looks(options: ExplainOptions, cases: Sequence[Case]) -> str:
    """Which looks are knocked out; of one prompt, the target's word is named."""
    query = "where the prediction is made" if options.query is None else f"“{options.query}”"
    named = f" “{cases[0].prompt.target.strip()}”" if len(cases) == 1 else ""
    key = f"the target's word{named}" if options.key is None else f"“{options.key}”"
    occurs = "it occurs" if options.query is None else "they occur"
    return f"from {query} at {key}, wherever {occurs} in the prompt"
