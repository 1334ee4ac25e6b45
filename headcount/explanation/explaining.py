"""Explaining predictions: which heads made a model say what it says, one by one and together."""

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import final

import numpy as np
from jaxtyping import Float
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from headcount.core import (
    Head,
    Progress,
    amount,
    name_of,
    short_hash,
    silent,
    spread,
)
from headcount.corpora import Corpus, Noted
from headcount.explanation.attribution import written
from headcount.explanation.blocks import Blocks
from headcount.explanation.circuits import Circuits, Curve, Together, ordered_scores
from headcount.explanation.effects import (
    Measured,
    attributions,
    between,
    effects_of,
    heads_of,
    mean_outputs,
    ranges,
)
from headcount.explanation.prompts import ExplainOptions, Prompt, prompts_of
from headcount.explanation.reader import Reader
from headcount.explanation.runs import Case, Outputs, Row, rows_at_once
from headcount.models import Loaded, as_loaded, check_has_heads, check_memory, signature
from headcount.results import (
    UNLIKELY,
    EffectRow,
    Explained,
    ExplanationRecord,
    JointRow,
    LayersRow,
    PromptRow,
    WrittenRow,
)
from headcount.vocabulary import EFFECTS, EffectName

WRITTEN = 5
"""Number of tokens that a head promotes, and that it demotes, which are kept."""
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
    cases = [reader.case(each) for each in prompts]
    given, read = ordered_scores(loaded, options, scores or {}), _texts(reader, texts)
    both = (row for case in cases for row in (*case.rows, *(case.corrupt or ())))
    longest = max(row.length for row in (*both, *read))
    at_once = rows_at_once(loaded, longest)
    check_memory(loaded, longest, advice="Give shorter prompts", at_once=at_once)
    found = _Explaining(loaded, cases, options, read, progress)
    rows, joint = tuple(found.rows()), tuple(found.joint())
    layers, curves = tuple(found.layers()), found.curves(given)
    signed = signature(loaded, _hash(prompts), **_signed(options, texts, given))
    return Explained(
        found.record(signed, reader.kind, time.time() - begun),
        rows,
        joint,
        layers,
        tuple(found.prompts()),
        tuple(_written(reader, loaded, cases, rows)),
        tuple(row for curve in curves for row in curve.rows()),
        tuple(row for curve in curves for row in curve.circuits()),
        tuple(curve.area() for curve in curves),
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
    found = written(loaded, cases[0].rows[0], WRITTEN, len(loaded.encoder().tokenizer))
    for head, each in (found or {}).items():
        if str(head) in heads:
            for token, value in each:
                yield WrittenRow(str(head), reader.piece(token), value)


def _hash(prompts: Sequence[Prompt]) -> str:
    parts = [(each.prompt, each.target, each.against, each.corrupt) for each in prompts]
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
        "scores": short_hash(given, 8) if scores else None,
        "draws": options.draws,
        "query": options.query,
        "key": options.key,
        "first": options.first or None,
        "chat": options.chat or None,
        "template": "+".join(options.template) or None,
        "texts": None if texts is None else texts.sha256()[:8],
        "seed": options.seed,
    }


@final
@dataclass
class _Alone:
    """The effects of single heads on one prompt."""

    numbers: tuple[float, float, float]
    """What the prompt's value is, that of the second prompt, and the log-probability."""
    effects: dict[str, Float[np.ndarray, " head"]] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)
    """What else adds to the logit."""
    logits: list[float] = field(default_factory=list)
    """What attribution adds up to, if it is exact."""
    by_layers: Float[np.ndarray, " range"] | None = None


def _unlikely(prompts: Sequence[PromptRow], kind: str) -> Iterator[str]:
    """What a reader must know before anything else: that hardly anything was predicted."""
    rows = [row for row in prompts if row.probability < UNLIKELY]
    if not rows:
        return
    row, blank = rows[0], ""
    if kind == "causal-lm" and row.target[:1].isalnum() and not row.prompt[-1:].isspace():
        blank = f' (did you mean " {row.target}", with a leading blank?)'
    more = "" if len(prompts) == 1 else f" after {row.prompt!r}"
    yield (
        f"the model gives “{row.target}” a probability of {row.probability:.0e}{more}, less than "
        f"{UNLIKELY:.0e}, in {amount(len(rows), 'prompt')} of {len(prompts)}, so what is explained "
        f"was hardly predicted{blank}"
    )


@final
class _Explaining:
    """The effects of heads on the predictions of some prompts.

    Args:
        loaded: the model.
        cases: the prompts.
        options: which effects of which heads are measured.
        texts: what heads' mean outputs are over; the prompts if there are none.
        progress: called with the number of prompts done.
    """

    def __init__(
        self,
        loaded: Loaded,
        cases: Sequence[Case],
        options: ExplainOptions,
        texts: Sequence[Row],
        progress: Progress,
    ) -> None:
        self._loaded, self._cases, self._options = loaded, cases, options
        self._progress, self.texts = progress, texts
        self._heads, self._blocks = heads_of(loaded, options), Blocks.of([c.prompt for c in cases])
        self._names = effects_of(loaded, cases, options)
        self._means: Outputs | None = None
        if "mean" in self._names or options.circuit:
            self._means = mean_outputs(loaded, texts or [case.rows[0] for case in cases])
        self._circuits = None
        if options.circuit:
            assert self._means is not None
            self._circuits = Circuits(loaded, cases, self._means, self._blocks)
        self.value_N, self.second_N, self._log_N = (np.zeros(len(cases)) for _ in range(3))
        self._effects: dict[str, Float[np.ndarray, "prompt head"]] = {}
        """The effects of every head alone."""
        self._parts: dict[str, list[float]] = {}
        """What else adds to the logit."""
        self._logits = list[float]()
        self._ranges, self._by_layers = ranges(loaded, cases[0]), list[np.ndarray]()
        self._measure()

    @property
    def logit(self) -> float:
        """What attribution adds up to, the mean over prompts; NaN where it is not exact."""
        return float(np.mean(self._logits)) if self._logits else float("nan")

    @property
    def nothing(self) -> float:
        """What is predicted with means in place of all heads; NaN without circuits."""
        return float("nan") if self._circuits is None else float(self._circuits.nothing_N.mean())

    def record(self, signed: str, kind: str, seconds: float) -> ExplanationRecord:
        """What is predicted, and how that was measured."""
        value, low, high = self._blocks.within(self.value_N)
        return ExplanationRecord(
            signature=signed,
            warnings=(
                *_unlikely([*self.prompts()], kind),
                *_noted(self._cases).warnings(),
                *_shared(self._cases),
                *self._blocks.warnings(),
            ),
            timings={"all": seconds},
            model=name_of(self._loaded.name),
            kind=kind,
            first=self._options.first,
            value=value,
            low=low,
            high=high,
            second=float(np.mean(self.second_N)),
            logit=self.logit,
            looks=_looks(self._options, self._cases) if "knockout" in self._names else "",
            means_over=amount(len(self.texts), "text") if self.texts else "prompts",
            nothing=self.nothing,
        )

    def _measure(self) -> None:
        """Measure the effects of single heads; processes share the prompts."""
        found: dict[str, list[np.ndarray]] = {}
        for n, each in enumerate(spread(self._alone, self._cases)):
            self.value_N[n], self.second_N[n], self._log_N[n] = each.numbers
            self._logits += each.logits
            for name, value in each.parts.items():
                self._parts.setdefault(name, []).append(value)
            if each.by_layers is not None:
                self._by_layers.append(each.by_layers)
            for name, effect_H in each.effects.items():
                found.setdefault(name, []).append(effect_H)
            self._progress("prompts", n + 1, len(self._cases))
        self._effects = {name: np.stack(found[name]) for name in EFFECTS if name in found}

    def _alone(self, case: Case) -> "_Alone":
        """The effects of single heads on a prompt."""
        measured = Measured(self._loaded, case, self._means)
        alone = _Alone((measured.value, measured.second, measured.log_probability))
        self._by_gradient(measured, case, alone)
        for name in self._names:
            if EFFECTS[name].is_replacement:
                alone.effects[name] = measured.replaced(name, [[head] for head in self._heads])
        if "knockout" in self._names:
            heads = [between(self._loaded, case, *each) for each in self._ranges]
            alone.by_layers = measured.replaced("knockout", heads)
        return alone

    def _by_gradient(self, measured: Measured, case: Case, alone: "_Alone") -> None:
        """Add effects that need no replacement; gradient x output where attribution is inexact."""
        wanted = {*self._names}
        if "attribution" in wanted:
            exact = attributions(self._loaded, case, self._heads)
            if exact is None:
                wanted |= {"gradient"}
            else:
                alone.effects["attribution"], alone.parts, logit = exact
                alone.logits.append(logit)
        if wanted & {"gradient", "estimate"}:
            found = measured.by_gradient(self._heads)
            alone.effects |= {name: each for name, each in found.items() if name in wanted}

    def rows(self) -> Iterator[EffectRow]:
        """A row for each effect of each head, and for each other part of the logit."""
        for name, effect_NH in self._effects.items():
            p_H = self._blocks.p(effect_NH).tolist()
            for head, effect_N, p in zip(self._heads, effect_NH.T, p_H, strict=True):
                yield self._row(str(head), name, effect_N, p)
        for part, values in self._parts.items():
            yield self._row(part, "attribution", np.array(values))

    def _row(
        self, part: str, effect: str, value_N: Float[np.ndarray, " prompt"], p: float = float("nan")
    ) -> EffectRow:
        first, second = (
            float(value_N[half::2].mean()) if len(value_N) > 1 else float("nan") for half in (0, 1)
        )
        return EffectRow(part, effect, *self._blocks.within(value_N), first, second, p)

    def prompts(self) -> Iterator[PromptRow]:
        """A row for each prompt."""
        numbers = zip(self._cases, self.value_N, self.second_N, self._log_N, strict=True)
        for case, value, second, log_probability in numbers:
            yield PromptRow(
                case.prompt.prompt,
                case.prompt.target,
                case.prompt.against or "",
                "|".join(case.tokens),
                case.prompt.corrupt or "",
                float(value),
                float(second),
                float(np.exp(log_probability)),
            )

    def layers(self) -> Iterator[LayersRow]:
        """A row for each layer, and for each of some ranges of layers, whose looks are knocked out.

        Ranges are fifths of the layers, and all of them.
        """
        if "knockout" not in self._names:
            return
        effect_NR = np.stack(self._by_layers)
        for (first, last), effect_N in zip(self._ranges, effect_NR.T, strict=True):
            yield LayersRow(first, last, *self._blocks.within(effect_N))

    def joint(self) -> Iterator[JointRow]:
        """A row for each number of best heads, by each effect of a replacement."""
        every = [*self._loaded.heads]
        sets = [
            Together(name, ranking, self._effects, self._heads, size, every, self._options)
            for name in self._names
            if EFFECTS[name].is_replacement
            for ranking in _rankings(name, self._effects)
            for size in self._options.together
            if size < len(self._heads)
        ]

        def of_prompt(n: int) -> list[np.ndarray]:
            measured = Measured(self._loaded, self._cases[n], self._means)
            return [measured.replaced(each.effect, each.sets(n)) for each in sets]

        for n, effects in enumerate(spread(of_prompt, range(len(self._cases) if sets else 0))):
            for each, effect_S in zip(sets, effects, strict=True):
                each.add(effect_S)
            self._progress("heads together", n + 1, len(self._cases))
        has_rival_N = [bool(case.prompt.against) for case in self._cases]
        for each in sets:
            before_N = self.second_N if each.effect == "restored" else self.value_N
            yield each.row(np.where(has_rival_N, before_N, np.nan), self._blocks)

    def curves(self, scores: Mapping[str, Float[np.ndarray, " head"]]) -> list[Curve]:
        """What is left with the best heads by each effect and score; nothing without circuits."""
        if self._circuits is None:
            return []
        draws, seed = self._options.draws, self._options.seed
        return self._circuits.measured(self._effects, scores, draws, seed, self._progress)


def _noted(cases: Sequence[Case]) -> Noted:
    """Numbers of prompts that are read in another way than they are written."""
    return Noted(repeated=sum(case.text.num_repeated > 0 for case in cases))


def _shared(cases: Sequence[Case]) -> Iterator[str]:
    """Which tokens target and rival begin with, if some do."""
    if found := [case for case in cases if case.shared]:
        yield (
            f"target and rival both begin with {found[0].shared!r} in "
            f"{amount(len(found), 'prompt')} of {len(cases)}; these tokens add nothing to the "
            "difference"
        )


def _rankings(effect: EffectName, known: Mapping[str, object]) -> Iterator[str]:
    """The effects whose best heads are replaced: itself, and for zero also attribution."""
    yield effect
    if effect == "zero":
        yield from (name for name in ("attribution", "gradient") if name in known)


def _looks(options: ExplainOptions, cases: Sequence[Case]) -> str:
    """Which looks are knocked out; of one prompt, the target's word is named."""
    query = "where the prediction is made" if options.query is None else f"“{options.query}”"
    named = f" “{cases[0].prompt.target.strip()}”" if len(cases) == 1 else ""
    key = f"the target's word{named}" if options.key is None else f"“{options.key}”"
    stands = "it stands" if options.query is None else "they stand"
    return f"from {query} at {key}, wherever {stands} in the prompt"
