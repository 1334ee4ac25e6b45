r"""Circuits: what is left of predictions with the best heads by each ranking.

What is measured is defined in results/explanation.py. A prompt's best heads are those by the mean
effects over the other half of the prompts, so no prompt chooses its own circuit; scores that were
measured on other data choose the same heads for all. Faithfulness is a ratio of means over prompts,
whose interval comes from its linearisation (Cochran, 1977, Sampling Techniques, section 6.3)

$$f + \frac{m_n(S) - m_n(\emptyset) - f \, (m_n(H) - m_n(\emptyset))}{m(H) - m(\emptyset)}$$

by prompt n, whose mean is f; areas are sums of these.

Together: the best heads replaced at once, beside random heads of the same layers.

With enough prompts, the best heads of each half are those by the other half's mean effects, so that
no prompt chooses its own heads.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np
from jaxtyping import Float, Int

from headcount.core import Head, InputError, Progress, amount, falling, paced
from headcount.explanation.blocks import Blocks
from headcount.explanation.effects import Measured
from headcount.explanation.prompts import ExplainOptions
from headcount.explanation.runs import Case, Outputs
from headcount.models import Loaded
from headcount.numbers import within
from headcount.results import (
    LEVELS,
    RANDOM,
    SPLIT_FROM,
    AreaRow,
    CircuitRow,
    FaithfulnessRow,
    JointRow,
)
from headcount.vocabulary import EffectName


@final
class Together:
    """Some number of best heads that are replaced together.

    Args:
        effect: name of the effect.
        ranking: name of the effect by which they are the best.
        effects: the effects of every head alone, by name.
        heads: these heads.
        size: the number of best ones.
        others: all heads of the model, of which some are drawn.
        options: how many random sets are drawn beside them, and by which seed.
    """

    def __init__(
        self,
        effect: EffectName,
        ranking: str,
        effects: Mapping[str, Float[np.ndarray, "prompt head"]],
        heads: Sequence[Head],
        size: int,
        others: Sequence[Head],
        options: ExplainOptions,
    ) -> None:
        self.effect: EffectName = effect
        self.ranking, self.size = ranking, size
        self._single_NH, random = effects[effect], np.random.default_rng((options.seed, size))
        self._numbers = [order_H[:size] for order_H in chosen(effects[ranking])]
        """Numbers of the best heads for either half of the prompts."""
        self._best = [[heads[number] for number in each] for each in self._numbers]
        self._drawn = [
            [
                *paced(
                    (_draw(best, others, random) for _ in range(options.draws)),
                    options.draws,
                    "draws",
                    held=True,
                )
            ]
            for best in self._best
        ]
        self._together = list[Float[np.ndarray, " set"]]()

    def sets(self, prompt: int) -> list[list[Head]]:
        """The best heads for a prompt, and random ones."""
        return [self._best[prompt % 2], *self._drawn[prompt % 2]]

    def add(self, effect_S: Float[np.ndarray, " set"]) -> None:
        """Add the effects of the sets of the next prompt."""
        self._together.append(effect_S)

    def row(self, before_N: Float[np.ndarray, " prompt"], blocks: Blocks) -> JointRow:
        """The effect together, the sum of single effects, and the effect of random heads.

        Args:
            before_N: what is predicted with all heads as they are, of the prompts that are
                changed; NaN for those without a rival.
            blocks: which prompts share names.
        """
        effect_NS = np.stack(self._together)
        sign = -1 if self.effect == "restored" else 1
        sets_S = effect_NS[:, 1:].mean(0)
        preferred_S = _preferred(before_N[:, None] - sign * effect_NS)
        singles_N = np.array(
            [each_H[self._numbers[n % 2]].sum() for n, each_H in enumerate(self._single_NH)]
        )
        random_N = effect_NS[:, 1:].mean(1)
        value, low, high = blocks.within(effect_NS[:, 0])
        _, excess_low, excess_high = blocks.within(effect_NS[:, 0] - singles_N)
        random, random_low, random_high = blocks.within(random_N)
        names = dict.fromkeys(" ".join(map(str, best)) for best in self._best)
        return JointRow(
            effect=self.effect,
            ranking=self.ranking,
            heads=self.size,
            names=" | ".join(names),
            value=value,
            low=low,
            high=high,
            singles=float(singles_N.mean()),
            excess_low=excess_low,
            excess_high=excess_high,
            random=random,
            random_low=random_low,
            random_high=random_high,
            random_least=float(sets_S.min()),
            random_most=float(sets_S.max()),
            preferred=float(preferred_S[0]),
            random_preferred=float(preferred_S[1:].mean()),
        )


def _preferred(
    left_NS: Float[np.ndarray, "prompt set"],
) -> Float[np.ndarray, " set"]:
    """Number of prompts that prefer the target to its rival; NaN if no prompt has a rival."""
    number_S = (left_NS > 0).sum(0)
    return np.where(np.isnan(left_NS).all(0), np.nan, number_S)


def chosen(
    effect_NH: Float[np.ndarray, "prompt head"],
) -> tuple[Int[np.ndarray, " head"], Int[np.ndarray, " head"]]:
    """Numbers of heads, the best first, for either half of the prompts by the other's effects."""
    is_split = len(effect_NH) >= SPLIT_FROM
    choosing = (effect_NH[1::2], effect_NH[::2]) if is_split else (effect_NH, effect_NH)
    first_H, second_H = (falling(each.mean(0)) for each in choosing)
    return first_H, second_H


def _draw(best: Sequence[Head], heads: Sequence[Head], random: np.random.Generator) -> list[Head]:
    """Draw as many other heads of the same layers, or of any layer where one has no others."""
    drawn = list[Head]()
    for head in best:
        others = [each for each in heads if each not in best and each not in drawn]
        here = [each for each in others if each.layer_id == head.layer_id] or others
        drawn += [here[random.integers(len(here))]] if here else []
    return drawn


Order = tuple[Int[np.ndarray, " head"], Int[np.ndarray, " head"]]
"""Numbers of all heads, the best first, for either half of the prompts."""


@final
class Circuits:
    """What is left of predictions with the best heads only, the others giving their means.

    Args:
        loaded: the model.
        cases: the prompts.
        means: mean outputs of all heads.
        blocks: which prompts share names.

    Raises:
        InputError: for fewer prompts than have halves, or predictions that need no head.
    """

    def __init__(
        self, loaded: Loaded, cases: Sequence[Case], means: Outputs, blocks: Blocks
    ) -> None:
        if len(cases) < SPLIT_FROM:
            raise InputError(
                f"Expected at least {SPLIT_FROM} prompts for a circuit, since each half chooses "
                f"the heads for the other, got {len(cases)}. Give a file of --prompts."
            )
        self._loaded, self._cases, self._means, self._blocks = loaded, cases, means, blocks
        self._heads = [*loaded.heads]
        whole, nothing = zip(*(self._left(case, [[]]) for case in cases), strict=True)
        self._whole_N, self.nothing_N = np.array(whole), np.concatenate(nothing)
        self._check()
        inner = _sizes(len(self._heads))
        self.sizes = np.array([0, *inner, len(self._heads)])
        """Numbers of heads that are kept."""

    def _left(
        self, case: Case, kept: Sequence[Sequence[int]]
    ) -> tuple[float, Float[np.ndarray, " set"]]:
        """What is predicted with all heads, and with some only, by their numbers."""
        measured = Measured(self._loaded, case, self._means)
        others = [sorted({*range(len(self._heads))} - {*each}) for each in kept]
        sets = [[self._heads[number] for number in each] for each in others]
        return measured.value, measured.value - measured.replaced("mean", sets)

    def _check(self) -> None:
        """Check that a circuit could predict anything."""
        num, whole = len(self._cases), self._whole_N.mean()
        if self._whole_N.max() <= 0 and all(case.prompt.against for case in self._cases):
            raise InputError(
                "Expected prompts of which the model prefers some target to its rival, got "
                f"{num} in which it prefers the rival ({whole:.2f} nats). What it can't do has no "
                "circuit. Give others, or swap targets and rivals."
            )
        gain, low, high = self._blocks.within(self._whole_N - self.nothing_N)
        if gain <= 0 or low <= 0:
            raise InputError(
                f"Expected heads that raise what is predicted, got {whole:.2f} nats with all of "
                f"them and {self.nothing_N.mean():.2f} with their means, a difference of "
                f"{within(gain, low, high)} over {num} prompts. A circuit is judged by "
                "the share of it that is left. Give more prompts, or others."
            )

    def measured(
        self,
        effects: Mapping[str, Float[np.ndarray, "prompt head"]],
        scores: Mapping[str, Float[np.ndarray, " head"]],
        draws: int,
        seed: int,
        progress: Progress,
    ) -> "list[Curve]":
        """The curve of each effect, of each score, and of random heads.

        Args:
            effects: the effects of every head on every prompt.
            scores: scores of the heads on other data.
            draws: number of random orders, of which the mean is taken.
            seed: their seed.
            progress: called with the number of prompts done.
        """
        random, num = np.random.default_rng(seed), len(self._heads)
        orders: dict[str, list[Order]] = {name: [chosen(each)] for name, each in effects.items()}
        orders |= {name: [chosen(each_H[None])] for name, each_H in scores.items()}
        drawn = ((random.permutation(num), random.permutation(num)) for _ in range(draws))
        orders[RANDOM] = [*paced(drawn, draws, "draws", held=True)]
        every, left = [order for each in orders.values() for order in each], list[np.ndarray]()
        for n, case in enumerate(self._cases):
            kept = [order[n % 2][:size] for order in every for size in self.sizes[1:-1]]
            left.append(self._left(case, [each.tolist() for each in kept])[1])
            progress("circuits", n + 1, len(self._cases))
        left_NOK = np.stack(left).reshape(len(left), len(every), -1)
        starts = np.cumsum([0, *map(len, orders.values())])
        return [
            self._curve(name, each, left_NOK[:, first:last].mean(1), name not in scores)
            for (name, each), (first, last) in zip(orders.items(), pairwise(starts), strict=True)
        ]

    def _curve(
        self,
        ranking: str,
        orders: Sequence[Order],
        left_NK: Float[np.ndarray, "prompt size"],
        are_of_halves: bool,
    ) -> "Curve":
        """The curve of one ranking."""
        ends = (self.nothing_N[:, None], left_NK, self._whole_N[:, None])
        gained_NK = np.concatenate(ends, 1) - self.nothing_N[:, None]
        names = [[str(self._heads[number]) for number in order] for order in orders[0]]
        shared = [
            float(np.mean([len({*one[:size]} & {*other[:size]}) for one, other in orders]))
            if are_of_halves
            else float("nan")
            for size in self.sizes
        ]
        names = names if ranking != RANDOM else []
        return Curve(ranking, self.sizes, gained_NK, shared, names, self._blocks)


@final
@dataclass(frozen=True, eq=False)
class Curve:
    """Faithfulness by the number of best heads that are kept."""

    ranking: str
    sizes: Int[np.ndarray, " size"]
    gained_NK: Float[np.ndarray, "prompt size"]
    """What each prompt's best heads add to what is predicted without any; the last are all."""
    shared: Sequence[float]
    """Number of heads in both halves' sets."""
    names: Sequence[Sequence[str]]
    """Names of all heads, the best first, for either half of the prompts; none if random."""
    blocks: Blocks
    """Which prompts share names."""

    @property
    def _faithfulness_NK(self) -> Float[np.ndarray, "prompt size"]:
        """Faithfulness, linearised by prompt."""
        whole_N1 = self.gained_NK[:, -1:]
        value_K = self.gained_NK.mean(0) / whole_N1.mean()
        return value_K + (self.gained_NK - value_K * whole_N1) / whole_N1.mean()

    def rows(self) -> Iterator[FaithfulnessRow]:
        """A row for each size."""
        ends = self.blocks.interval(self._faithfulness_NK).T.tolist()
        for size, each, shared in zip(self.sizes.tolist(), ends, self.shared, strict=True):
            value, low, high = each
            yield FaithfulnessRow(self.ranking, size, value, low, high, shared)

    def circuits(self) -> Iterator[CircuitRow]:
        """A row for each share of the prediction that the smallest circuit keeps."""
        rows = [*self.rows()]
        for level in LEVELS:
            row = next(each for each in rows if each.value >= level)
            best = dict.fromkeys(" ".join(each[: row.heads]) for each in self.names)
            chance = row.heads**2 / rows[-1].heads
            yield CircuitRow(**vars(row), level=level, chance=chance, names=" | ".join(best))

    def area(self) -> AreaRow:
        """CPR and CMD."""
        width = np.diff(self.sizes / self.sizes[-1])
        weight_K = (np.append(width, 0) + np.append(0, width)) / 2
        value_NK = self._faithfulness_NK
        value_K = value_NK.mean(0)
        distance_NK = abs(1 - value_K) + np.sign(value_K - 1) * (value_NK - value_K)
        cpr, cmd = (self.blocks.within(each_NK @ weight_K) for each_NK in (value_NK, distance_NK))
        return AreaRow(self.ranking, *cpr, *cmd)


def _sizes(num: int) -> list[int]:
    """Numbers of heads between none and all: all to 10, and then each by a fifth larger."""
    found, size = list[int](), 1
    while size < num:
        found.append(size)
        size = max(size + 1, size * 6 // 5)
    return found


def ordered_scores(
    loaded: Loaded, options: ExplainOptions, scores: Mapping[str, Mapping[Head, float]]
) -> dict[str, Float[np.ndarray, " head"]]:
    """The scores in the order of the model's heads.

    Raises:
        InputError: without a circuit, or for scores of other heads or without numbers.
    """
    if scores and not options.circuit:
        raise InputError(
            f"Expected a circuit, whose heads scores choose, got {', '.join(scores)} without one. "
            "Ask for it with --circuit (circuit=True), or leave the scores out."
        )
    for name, each in scores.items():
        if {*each} != {*loaded.heads} or not np.isfinite([*each.values()]).all():
            raise InputError(
                f"Expected a number for each head of {loaded.name} ({loaded.heads}) as {name}, got "
                f"{sum(map(np.isfinite, each.values()))} for {amount(len(each), 'head')}, maybe of "
                "another model. Give scores of this model."
            )
    return {name: np.array([each[h] for h in loaded.heads]) for name, each in scores.items()}
