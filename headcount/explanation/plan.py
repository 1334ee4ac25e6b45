"""Plan: which effects of which heads are measured on which prompts, and what they are."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float, Int

from headcount.core import Head, InputError, Progress, check_choice, falling, spread
from headcount.explanation.attribution import Attribution
from headcount.explanation.blocks import Blocks
from headcount.explanation.changes import Outputs
from headcount.explanation.circuit_rows import SIGNED, Order
from headcount.explanation.effects import (
    EFFECTS,
    Direct,
    Effect,
    Estimate,
    Gradient,
    Replacement,
)
from headcount.explanation.mlps import units_of
from headcount.explanation.options import ExplainOptions
from headcount.explanation.prompt_runs import PromptRuns, mean_outputs
from headcount.explanation.result import SPLIT_FROM, AloneRow, EffectRow, LayersRow, PromptRow
from headcount.explanation.runs import Case, Row
from headcount.models import Loaded

_FIFTHS = 5
"""Number of ranges of layers whose looks are knocked out together."""


@final
@dataclass(frozen=True, eq=False)
class Plan:
    """What is measured to explain some predictions."""

    loaded: Loaded
    cases: Sequence[Case]
    options: ExplainOptions
    texts: Sequence[Row]
    """What heads' mean outputs are over; the prompts if there are none."""
    heads: Sequence[Head]
    """The heads to measure."""
    units: Sequence[Head]
    """The same, and behind them the MLPs, if circuits are made of these, too."""
    effects: Sequence[Effect]
    others: Sequence[str]
    """What the heads outside circuits output, by name; none without circuits."""
    means: Outputs | None
    """Mean outputs of all heads; None if nothing needs them."""
    blocks: Blocks
    """Which prompts share names."""

    @classmethod
    def of(
        cls,
        loaded: Loaded,
        cases: Sequence[Case],
        options: ExplainOptions,
        texts: Sequence[Row],
        failed: Collection[object] = (),
    ) -> "Plan":
        """The plan for some prompts, without effects that have failed.

        Raises:
            InputError: for heads that the model lacks, or effects that the prompts don't allow.
        """
        heads, effects = _heads(loaded, options), _effects(loaded, cases, options)
        effects = [each for each in effects if type(each) not in failed]
        others, means = _others(cases, options), None
        if "mean" in others or any("means" in each.needs for each in effects):
            means = mean_outputs(loaded, texts or [case.rows[0] for case in cases])
        blocks = Blocks.of([case.prompt for case in cases])
        units = [*heads, *units_of(cases[0].rows[0].mlps)]
        return cls(loaded, cases, options, texts, heads, units, effects, others, means, blocks)

    def runs(self, case: Case) -> PromptRuns:
        """The runs of a prompt."""
        return PromptRuns(self.loaded, case, self.means)

    @property
    def replacements(self) -> list[Replacement]:
        """The effects that replace heads."""
        return [each for each in self.effects if isinstance(each, Replacement)]

    @property
    def knockout(self) -> Replacement | None:
        """The effect that blocks looks, if it is measured."""
        return next((each for each in self.replacements if "looks" in each.needs), None)

    def ranges(self) -> dict[tuple[int, int], list[Head]]:
        """The heads that look at the word, by the first and the last layer of each range.

        Ranges are single layers, fifths of them, and all.
        """
        look = self.cases[0].rows[0].look
        if look is None or self.knockout is None:
            return {}
        num = len(self.loaded.heads.counts[look.site])
        size = -(-num // _FIFTHS)
        fifths = [(first, min(first + size, num) - 1) for first in range(0, num, size)]
        looking = [head for head in self.loaded.heads if head.site == look.site]
        return {
            (first, last): [head for head in looking if first <= head.layer <= last]
            for first, last in [*((each, each) for each in range(num)), *fifths, (0, num - 1)]
        }


def _heads(loaded: Loaded, options: ExplainOptions) -> list[Head]:
    """The heads to measure.

    Raises:
        InputError: for one that the model lacks.
    """
    named = {loaded.heads.named(name): name for name in options.heads}
    for head, name in named.items():
        if head not in loaded.heads:
            raise InputError(
                f"Expected heads of {loaded.name} ({loaded.heads}), got {name}. Name others."
            )
    return [*named] or [*loaded.heads]


def _effects(loaded: Loaded, cases: Sequence[Case], options: ExplainOptions) -> list[Effect]:
    """The effects to measure; by default those that need nothing that a prompt lacks.

    For a circuit, that is the cheapest one by default.

    Raises:
        InputError: if one was asked for that needs what a prompt lacks.
    """
    order = [*EFFECTS]
    named = sorted(map(EFFECTS.find, {*options.effects}), key=lambda each: order.index(each.name))
    _check_needs(named, cases)
    lacking = {*_lacking(loaded, cases)}
    wanted = named or [each for each in EFFECTS.usable() if each.by_default]
    if options.circuit and not named:  # others would cost more than the circuits
        wanted = [Gradient if "second" in lacking else Estimate]
    return [each() for each in wanted if not each.needs & lacking]


def _others(cases: Sequence[Case], options: ExplainOptions) -> tuple[str, ...]:
    """What heads outside circuits output: by default what the second prompt has, and means.

    Raises:
        InputError: for a second prompt that is lacking.
    """
    without = next((case.prompt for case in cases if case.corrupt is None), None)
    if "second" in options.others and without is not None:
        raise InputError(
            f"{without.origin}: expected a second prompt, which gives the outputs of the heads "
            "outside a circuit, got none. Give one, or choose --others mean."
        )
    default = ("mean",) if without is not None else ("second", "mean")
    return (options.others or default) if options.circuit else ()


def _lacking(loaded: Loaded, cases: Sequence[Case]) -> Iterator[str]:
    """What effects need that some prompt, or the model, lacks."""
    own = any(layer.by_own_softmax for layer in loaded.anatomy.layers)
    if own or not loaded.anatomy.can_block or any(case.rows[0].look is None for case in cases):
        yield "looks"
    if any(case.corrupt is None for case in cases):
        yield "second"
    if any(case.rows[0].at is not None for case in cases):
        yield "all tokens"


def _check_needs(named: Sequence[type[Effect]], cases: Sequence[Case]) -> None:
    """Check that prompts have what the effects need that were asked for."""
    unseen = next((case.prompt for case in cases if case.rows[0].look is None), None)
    if unseen is not None and any("looks" in each.needs for each in named):
        raise InputError(
            f"{unseen.origin}: expected a word to be looked at, which the target "
            f"{unseen.target!r} is not in the prompt. Name one as --key."
        )
    without = next((case.prompt for case in cases if case.corrupt is None), None)
    needing = [each.name for each in named if "second" in each.needs]
    if needing and without is not None:
        raise InputError(
            f"{without.origin}: expected a second prompt for the effect {needing[0]}, got none. "
            "Give one as --corrupt, or in the file of prompts."
        )


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
        found = list[_OfPrompt]()
        for each in spread(lambda case: _of_prompt(plan, case), plan.cases, "prompts"):
            found.append(each)
            progress("prompts", len(found), len(plan.cases))
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
        for (first, last), effect_N in zip(self.plan.ranges(), self.by_layers.T, strict=True):
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


def _of_prompt(plan: Plan, case: Case) -> _OfPrompt:
    """Measure the effects of single heads on a prompt."""
    runs = plan.runs(case)
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
    knockout, ranges = plan.knockout, plan.ranges()
    by_layers = np.zeros(0) if knockout is None else knockout.lost(runs, [*ranges.values()])
    numbers = (runs.value, runs.second, runs.log_probability)
    return _OfPrompt(numbers, effects, parts, logit, by_layers)


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
