r"""Stable circuits: which heads are chosen whatever prompts chose them, and what these keep.

Prompts are drawn again by blocks, as many as there are. Each resample ranks the heads by its mean
effects, which costs sums alone. Two circuits S, T of k of N heads agree by Jaccard's index

$$J(S, T) = \frac{|S \cap T|}{|S \cup T|}, \qquad
    E[J] \approx \frac{k}{2 N - k} \text{ of random heads}$$

Resamples share prompts, so the index of the circuits of both halves, which share none, stands
beside. How many prompts an index of .8 would take is extrapolated: resamples of more blocks than
there are have the standard errors of so many. Of the size at which circuits keep `SHARE` of the
prediction, heads in at least `CERTAIN` of the resamples' circuits are *in*, those in at most 1 -
`CERTAIN` are *out*, and the rest are *undecided*.

A circuit is equivalent to the model if the interval of its faithfulness lies between .8 and 1.2
(two one-sided tests at 2.5 %); the rest of the heads knows nothing of the answer if theirs holds 0;
and a head of it is needed if the circuit keeps less without it (Holm over its heads).

References: https://arxiv.org/abs/2510.00845 (stability by Jaccard's index); Certified Circuits,
    https://arxiv.org/abs/2602.22968, which abstains with a provable bound, where resamples prove
    nothing; Hypothesis Testing the Circuit Hypothesis in LLMs (Shi et al., 2024), section 3,
    https://arxiv.org/abs/2410.13032
Departure: the size is that of the circuits of halves, not of each resample.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int

from headcount.core import Head, amount, names_a_head, silent, sorted_by
from headcount.explanation.blocks import Blocks
from headcount.explanation.circuit_rows import (
    ASKED,
    SIGNED,
    Curve,
    KeptRow,
    StabilityRow,
    StableRow,
    faithfulness,
)
from headcount.explanation.circuits import Others
from headcount.explanation.prompt_runs import PromptRuns
from headcount.explanation.result import Explained
from headcount.numbers import percent
from headcount.results import RANDOM
from headcount.statistics import FEWEST_CLUSTERS

RESAMPLES = 100
"""Number of times that prompts are drawn again."""
CERTAIN = 0.95
"""Share of the resamples whose circuits have a head that is in."""
MORE = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""How many times as many prompts are drawn, to say with how many circuits would agree so far."""
EXPLAINED = 40
"""Largest number of heads of a stable circuit whose looks are explained."""
SHARE = 0.8
"""Share of the prediction that a circuit keeps whose size is taken."""


@final
@dataclass(frozen=True, eq=False)
class Stable:
    """The circuit of one ranking at the size at which circuits keep most of the prediction."""

    ranking: str
    heads: Sequence[Head]
    size: int
    share_H: Float[np.ndarray, " head"]
    """Share of the resamples in whose circuit each head is."""

    @property
    def is_in_H(self) -> Bool[np.ndarray, " head"]:
        """Which heads are certain."""
        return self.share_H >= CERTAIN

    @property
    def is_kept_H(self) -> Bool[np.ndarray, " head"]:
        """Which heads are certain or undecided."""
        return self.share_H > 1 - CERTAIN

    def sets(self) -> dict[str, Bool[np.ndarray, " head"]]:
        """Sets of heads whose faithfulness says something."""
        return {"in": self.is_in_H, "in and undecided": self.is_kept_H, "rest": ~self.is_kept_H}


Effects = Mapping[str, Float[np.ndarray, "prompt head"]]
"""The effects of every head on every prompt, by name."""


def places_of(
    effect_NH: Float[np.ndarray, "prompt head"], blocks: Blocks, seed: int, times: int = 1
) -> Int[np.ndarray, "resample head"]:
    """The place of every head, 0 for the best, by the mean effects over each resample.

    Args:
        effect_NH: the effects of every head on every prompt.
        blocks: which prompts share names.
        seed: the seed of the draws.
        times: how many times as many blocks are drawn as there are.
    """
    random = np.random.default_rng((seed, RESAMPLES))
    even = [1 / blocks.count] * blocks.count
    drawn_RB = random.multinomial(times * blocks.count, even, RESAMPLES)
    weight_RN = drawn_RB[:, blocks.numbers]
    score_RH = weight_RN @ effect_NH / weight_RN.sum(1, keepdims=True)
    return (-score_RH).argsort(1, kind="stable").argsort(1)


def stability_rows(effects: Effects, curves: Sequence[Curve], seed: int) -> Iterator[StabilityRow]:
    """A row for each ranking by effects and each size of its circuits; none for few prompts."""
    for curve in _first(curves):
        if curve.ranking not in effects or curve.blocks.count < FEWEST_CLUSTERS:
            continue
        effect_NH, num = effects[curve.ranking], int(curve.sizes[-1])
        places = {times: places_of(effect_NH, curve.blocks, seed, times) for times in MORE}
        for size, shared in zip(curve.sizes[1:].tolist(), curve.shared[1:], strict=True):
            jaccard = agreement(places[1], size)
            enough = (times for times in MORE if agreement(places[times], size).mean() >= ASKED)
            low, high = np.quantile(jaccard, [0.025, 0.975]).tolist()
            yield StabilityRow(
                curve.ranking,
                size,
                float(jaccard.mean()),
                low,
                high,
                halves=shared / (2 * size - shared),
                chance=size / (2 * num - size),
                enough=len(effect_NH) * next(enough, -1),
            )


def agreement(place_RH: Int[np.ndarray, "resample head"], size: int) -> Float[np.ndarray, " pair"]:
    """Jaccard's index of the circuits of every two resamples."""
    in_RH = (place_RH < size).astype(float)
    both = (in_RH @ in_RH.T)[np.triu_indices(RESAMPLES, 1)]
    return both / (2 * size - both)


def stable_circuit(
    effects: Effects, curves: Sequence[Curve], heads: Sequence[Head], seed: int
) -> Stable | None:
    """The circuit of the ranking that keeps most with the fewest heads.

    None for few prompts, and where as few random heads keep as much.
    """
    blocks = curves[0].blocks
    if blocks.count < FEWEST_CLUSTERS or no_ranking(curves):
        return None
    sizes = {name: size for name, size in _sizes(curves).items() if name in effects}
    ranking = min(sizes, key=lambda each: sizes[each])
    share_H = (places_of(effects[ranking], blocks, seed) < sizes[ranking]).mean(0)
    return Stable(ranking, heads, sizes[ranking], share_H)


def no_ranking(curves: Sequence[Curve]) -> str:
    """That no ranking is better than chance, in a sentence; empty if one is."""
    sizes = _sizes(curves)
    random = sizes.pop(RANDOM)
    if min(sizes.values()) < random:
        return ""
    return (
        f"no ranking finds a circuit: the best {amount(min(sizes.values()), 'head')} by any keep "
        f"{percent(SHARE)} of the prediction, and so do {random} random ones"
    )


def _sizes(curves: Sequence[Curve]) -> dict[str, int]:
    """Number of heads that keep `SHARE` of the prediction, by ranking."""
    return {
        curve.ranking: next(row.heads for row in curve.circuits() if row.level == SHARE)
        for curve in _first(curves)
    }


def _first(curves: Sequence[Curve]) -> list[Curve]:
    """The curves of the first of the others, of heads with the highest scores."""
    return [each for each in curves if (each.others, each.order) == (curves[0].others, SIGNED)]


def kept_rows(stable: Stable, others: Others, prompts: str) -> Iterator[KeptRow]:
    """How faithful the sets of a stable circuit are.

    Args:
        stable: the circuit.
        others: what all other heads give in the prompts.
        prompts: what the prompts are called.
    """
    sets = stable.sets()
    left_NS = _left(others, stable.heads, [*sets.values()])
    whole_N, nothing_N, kept_NS = left_NS[:, 0], left_NS[:, 1], left_NS[:, 2:]
    value_NS = faithfulness(kept_NS - nothing_N[:, None], (whole_N - nothing_N)[:, None])
    for (name, is_in_H), value_N in zip(sets.items(), value_NS.T, strict=True):
        yield KeptRow(prompts, name, int(is_in_H.sum()), *others.plan.blocks.within(value_N))


def stable_rows(stable: Stable, others: Others) -> Iterator[StableRow]:
    """A row for each head: how often it is in, and what the circuit loses without it."""
    kept = np.flatnonzero(stable.is_kept_H).tolist()
    without = [stable.is_kept_H & (np.arange(len(stable.heads)) != number) for number in kept]
    left_NS = _left(others, stable.heads, [stable.is_kept_H, *without])
    gain = float((left_NS[:, 0] - left_NS[:, 1]).mean())
    lost_NS = (left_NS[:, 2:3] - left_NS[:, 3:]) / gain
    p_S = others.plan.blocks.p(lost_NS)
    lost = dict(zip(kept, zip(lost_NS.mean(0).tolist(), p_S.tolist(), strict=True), strict=True))
    nan = float("nan")
    for number, (head, share) in enumerate(zip(stable.heads, stable.share_H, strict=True)):
        value, p = lost.get(number, (nan, nan))
        yield StableRow(str(head), float(share), _verdict(stable, number), value, p)


def unexplained(rows: Sequence[StableRow], found: Explained) -> list[Head]:
    """The most certain heads of a stable circuit whose looks have no reasons yet."""
    kept = [row for row in rows if row.verdict != "out" and names_a_head(row.head)]
    kept = sorted_by(kept, lambda row: row.share, descending=True)[:EXPLAINED]
    known = {row.head for row in found.looks}
    return [Head.parse(row.head) for row in kept if row.head not in known]


def _verdict(stable: Stable, number: int) -> str:
    if stable.is_in_H[number]:
        return "in"
    return "undecided" if stable.is_kept_H[number] else "out"


def _left(
    others: Others, heads: Sequence[Head], sets: Sequence[Bool[np.ndarray, " head"]]
) -> Float[np.ndarray, "prompt set"]:
    """What is predicted of each prompt with all heads, with none, and with some sets alone."""
    gone = [[*heads], *([heads[n] for n in np.flatnonzero(~is_in_H).tolist()] for is_in_H in sets)]

    def of_prompt(n: int, runs: PromptRuns) -> Float[np.ndarray, " set"]:
        return np.append(runs.value, others.left(n, runs, gone))

    return np.stack(others.plan.measured(of_prompt, "", silent))
