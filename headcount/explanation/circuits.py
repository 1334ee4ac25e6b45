r"""Circuits: what is left of predictions with the best heads by each ranking.

What is measured is defined in results/explanation.py. A prompt's best heads are those by the mean
effects over the other half of the prompts, so no prompt chooses its own circuit; scores that were
measured on other data choose the same heads for all. Faithfulness is a ratio of means over prompts,
whose interval comes from its linearisation (Cochran, 1977, Sampling Techniques, section 6.3)

$$f + \frac{m_n(S) - m_n(\emptyset) - f \, (m_n(H) - m_n(\emptyset))}{m(H) - m(\emptyset)}$$

by prompt n, whose mean is f; areas are sums of these.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np
from jaxtyping import Float, Int

from headcount.core import InputError, Progress, paced
from headcount.explanation.blocks import Blocks
from headcount.explanation.effects import Replacement
from headcount.explanation.plan import Plan
from headcount.explanation.runs import Case
from headcount.explanation.singles import Order, chosen
from headcount.numbers import within
from headcount.results import (
    LEVELS,
    RANDOM,
    SPLIT_FROM,
    AreaRow,
    CircuitRow,
    FaithfulnessRow,
)


@final
class Circuits:
    """What is left of predictions with the best heads only, the others giving their means.

    Args:
        plan: the prompts.
        others: what the other heads give.

    Raises:
        InputError: for fewer prompts than have halves, or predictions that need no head.
    """

    def __init__(self, plan: Plan, others: Replacement) -> None:
        if len(plan.cases) < SPLIT_FROM:
            raise InputError(
                f"Expected at least {SPLIT_FROM} prompts for a circuit, since each half chooses "
                f"the heads for the other, got {len(plan.cases)}. Give a file of --prompts."
            )
        self._plan, self._others = plan, others
        self._cases, self._heads = plan.cases, [*plan.loaded.heads]
        whole, nothing = zip(*(self._left(case, [[]]) for case in plan.cases), strict=True)
        self._whole_N, self.nothing_N = np.array(whole), np.concatenate(nothing)
        self._check()
        inner = _sizes(len(self._heads))
        self.sizes = np.array([0, *inner, len(self._heads)])
        """Numbers of heads that are kept."""

    def _left(
        self, case: Case, kept: Sequence[Sequence[int]]
    ) -> tuple[float, Float[np.ndarray, " set"]]:
        """What is predicted with all heads, and with some only, by their numbers."""
        runs = self._plan.runs(case)
        others = [sorted({*range(len(self._heads))} - {*each}) for each in kept]
        sets = [[self._heads[number] for number in each] for each in others]
        return runs.value, runs.value - self._others.lost(runs, sets)

    def _check(self) -> None:
        """Check that a circuit could predict anything."""
        num, whole = len(self._cases), self._whole_N.mean()
        if self._whole_N.max() <= 0 and all(case.prompt.against for case in self._cases):
            raise InputError(
                "Expected prompts of which the model prefers some target to its rival, got "
                f"{num} in which it prefers the rival ({whole:.2f} nats). What it can't do has no "
                "circuit. Give others, or swap targets and rivals."
            )
        gain, low, high = self._plan.blocks.within(self._whole_N - self.nothing_N)
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
        progress: Progress,
    ) -> "list[Curve]":
        """The curve of each effect, of each score, and of random heads (the mean of orders).

        Args:
            effects: the effects of every head on every prompt.
            scores: scores of the heads on other data.
            progress: called with the number of prompts done.
        """
        options, num = self._plan.options, len(self._heads)
        random = np.random.default_rng(options.seed)
        orders: dict[str, list[Order]] = {name: [chosen(each)] for name, each in effects.items()}
        orders |= {name: [chosen(each_H[None])] for name, each_H in scores.items()}
        drawn = ((random.permutation(num), random.permutation(num)) for _ in range(options.draws))
        orders[RANDOM] = [*paced(drawn, options.draws, "draws", held=True)]
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
        return Curve(ranking, self.sizes, gained_NK, shared, names, self._plan.blocks)


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
