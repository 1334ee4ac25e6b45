"""Singles: the measured table, what every head alone does for the prediction of every prompt."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float, Int

from headcount.core import Head, Progress, amount, check_choice, falling, name_of
from headcount.corpora import Noted
from headcount.explanation.attribution import Attribution
from headcount.explanation.circuit_rows import SIGNED, Order
from headcount.explanation.effects import EFFECTS, Direct, Effect, Replacement
from headcount.explanation.options import ExplainOptions
from headcount.explanation.plan import Plan
from headcount.explanation.prompt_runs import PromptRuns
from headcount.explanation.result import (
    SPLIT_FROM,
    UNLIKELY,
    AloneRow,
    EffectRow,
    Explained,
    ExplanationRecord,
    LayersRow,
    PromptRow,
)
from headcount.explanation.runs import Case

_FIFTHS = 5
"""Number of ranges of layers whose looks are knocked out together."""


@final
@dataclass(frozen=True, eq=False)
class Singles:
    """The effects of every head alone, and of ranges of layers, on every prompt."""

    plan: Plan
    value_N: Float[np.ndarray, " prompt"]
    """What is predicted, in nats."""
    second_N: Float[np.ndarray, " prompt"]
    """The same in the second prompt; NaN without one."""
    log_N: Float[np.ndarray, " prompt"]
    """Log-probability of the target."""
    effects: Mapping[str, Float[np.ndarray, "prompt unit"]]
    """The effects of every head and other unit, by name."""
    parts: Mapping[tuple[str, str], Float[np.ndarray, " prompt"]]
    """What else adds to the logit, by the name of the effect and its own."""
    logit: float
    """What attribution adds up to, the mean over prompts; NaN where it is not exact."""
    by_layers: Float[np.ndarray, "prompt range"]
    """What is lost without the looks of each range of layers."""

    @classmethod
    def measured(cls, plan: Plan, progress: Progress) -> "Singles":
        """Measure the effects; processes share the prompts."""
        found = plan.measured(lambda _, runs: _of_prompt(plan, runs), "prompts", progress)
        value_N, second_N, log_N = np.array([each.numbers for each in found]).T
        logits = [each.logit for each in found if not np.isnan(each.logit)]
        return cls(
            plan,
            value_N,
            second_N,
            log_N,
            {name: np.stack([each.effects[name] for each in found]) for name in found[0].effects},
            {name: np.array([each.parts[name] for each in found]) for name in found[0].parts},
            float(np.mean(logits)) if logits else float("nan"),
            np.stack([each.by_layers for each in found]),
        )

    def explained(self, kind: str, faults: Sequence[str]) -> Explained:
        """The explanation by single heads, and why parts of it could not be measured."""
        return Explained(
            _record(self, faults, kind),
            tuple(self.rows()),
            (),
            tuple(self.layers()),
            tuple(self.prompts()),
            tuple(self.alone()),
        )

    def rows(self) -> Iterator[EffectRow]:
        """A row for each effect of each head, and for each other part of the logit."""
        for name, effect_NH in self.effects.items():
            p_H = self.plan.blocks.p(effect_NH).tolist()
            for unit, effect_N, p in zip(self.plan.units, effect_NH.T, p_H, strict=True):
                yield self._row(str(unit), name, effect_N, p)
        units = {*map(str, self.plan.units)}
        for (name, part), value_N in self.parts.items():
            if part not in units:
                yield self._row(part, name, value_N)

    def alone(self) -> Iterator[AloneRow]:
        """A row for each effect of each head on each of several prompts."""
        if len(self.plan.cases) < 2:
            return
        for name, effect_NH in self.effects.items():
            for unit, effect_N in zip(self.plan.units, effect_NH.T.tolist(), strict=True):
                for n, value in enumerate(effect_N):
                    yield AloneRow(str(unit), name, n, value)

    def _row(
        self, part: str, effect: str, value_N: Float[np.ndarray, " prompt"], p: float = float("nan")
    ) -> EffectRow:
        first, second = (
            float(value_N[half::2].mean()) if len(value_N) > 1 else float("nan") for half in (0, 1)
        )
        return EffectRow(part, effect, *self.plan.blocks.within(value_N), first, second, p)

    def best(self, number: int) -> list[Head]:
        """The heads with the largest effects, by the first effect that was measured."""
        first_NH = next(iter(self.of_heads.values()))
        return [self.plan.heads[place] for place in falling(abs(first_NH.mean(0)))[:number]]

    @property
    def of_heads(self) -> dict[str, Float[np.ndarray, "prompt head"]]:
        """The effects of heads alone."""
        return {name: each[:, : len(self.plan.heads)] for name, each in self.effects.items()}

    def prompts(self) -> Iterator[PromptRow]:
        """A row for each prompt."""
        numbers = zip(self.plan.cases, self.value_N, self.second_N, self.log_N, strict=True)
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
                " | ".join(str(each.path) for each in case.prompt.pictures),
            )

    def layers(self) -> Iterator[LayersRow]:
        """A row for each layer, and for each of some ranges of layers, whose looks are blocked."""
        for (first, last), effect_N in zip(_ranges(self.plan), self.by_layers.T, strict=True):
            yield LayersRow(first, last, *self.plan.blocks.within(effect_N))


@final
@dataclass(frozen=True, eq=False)
class _OfPrompt:
    """The effects of single heads on one prompt."""

    numbers: tuple[float, float, float]
    """What is predicted, the same in the second prompt, and the log-probability."""
    effects: Mapping[str, Float[np.ndarray, " head"]]
    parts: Mapping[tuple[str, str], float]
    logit: float
    by_layers: Float[np.ndarray, " range"]


def _of_prompt(plan: Plan, runs: PromptRuns) -> _OfPrompt:
    """Measure the effects of single heads on a prompt."""
    effects, parts = dict[str, Float[np.ndarray, " head"]](), dict[tuple[str, str], float]()
    logit = float("nan")
    for effect in plan.effects:
        if isinstance(effect, Replacement):
            effects[effect.name] = effect.lost(runs, [[unit] for unit in plan.units])
            continue
        name, found = _direct(effect, runs)
        effects[name] = found.of(plan.units)
        parts |= {(name, part): value for part, value in found.parts.items()}
        logit = found.logit if found.parts else logit
    knockout, ranges = plan.knockout, _ranges(plan)
    by_layers = np.zeros(0) if knockout is None else knockout.lost(runs, [*ranges.values()])
    numbers = (runs.value, runs.second, runs.log_probability)
    return _OfPrompt(numbers, effects, parts, logit, by_layers)


def _ranges(plan: Plan) -> dict[tuple[int, int], list[Head]]:
    """The heads that look at the word, by the first and the last layer of each range.

    Ranges are single layers, fifths of them, and all.
    """
    look = plan.cases[0].rows[0].look
    if look is None or plan.knockout is None:
        return {}
    num = len(plan.loaded.heads.counts[look.site])
    size = -(-num // _FIFTHS)
    fifths = [(first, min(first + size, num) - 1) for first in range(0, num, size)]
    looking = [head for head in plan.loaded.heads if head.site == look.site]
    return {
        (first, last): [head for head in looking if first <= head.layer <= last]
        for first, last in [*((each, each) for each in range(num)), *fifths, (0, num - 1)]
    }


def _direct(effect: Effect, runs: PromptRuns) -> tuple[str, Attribution]:
    """A direct effect and its name, or those of the effect in its place."""
    while isinstance(effect, Direct):
        if (found := effect.given(runs)) is not None:
            return effect.name, found
        assert effect.instead is not None, f"{effect.name} can't be measured, nor another instead"
        effect = EFFECTS[effect.instead]()
    raise AssertionError(f"{effect.name} is neither a direct effect nor a replacement")


Halves = tuple[Int[np.ndarray, " head"], Int[np.ndarray, " head"]]
"""Numbers of heads, the best first, for either half of the prompts."""


def chosen(
    effect_NH: Float[np.ndarray, "prompt head"],
    order: Order = SIGNED,
) -> Halves:
    """Numbers of heads, the best first, for either half of the prompts by the other's effects."""
    check_choice("an order", order, Order)
    is_split = len(effect_NH) >= SPLIT_FROM
    choosing = (effect_NH[1::2], effect_NH[::2]) if is_split else (effect_NH, effect_NH)
    score_H, other_H = (each.mean(0) for each in choosing)
    if order == SIGNED:
        return falling(score_H), falling(other_H)
    return falling(abs(score_H)), falling(abs(other_H))


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
