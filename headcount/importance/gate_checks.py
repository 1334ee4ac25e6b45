"""Checks of causal gates, on examples that trained none of them: what is left of the model."""

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from headcount.core import MAX_TOKENS, Head, Plan
from headcount.importance.gate_sets import GateSets, split
from headcount.models import Loaded
from headcount.results import AGREED, CausalGates, GateCheck
from headcount.statistics import loss_deltas, rank_correlations
from headcount.tap import Tap
from headcount.tasks import Evaluation, Task, evaluate

DRAWS = 10
"""Number of draws of random heads."""


class _Left(NamedTuple):
    """Heads that are kept while the others are removed."""

    left: str
    kept: Collection[Head]
    head: str = ""


def gate_facts(
    loaded: Loaded, task: Task, sets: GateSets, max_tokens: int = MAX_TOKENS
) -> CausalGates:
    """On which heads all sets of gates agree, and what these are worth on other examples.

    Args:
        loaded: The model.
        task: The task whose halves trained the gates.
        sets: The gates.
        max_tokens: Number of padded tokens in a batch.
    """
    *halves, held_out = split(task)
    found = {
        "facilitating": sets.agreed(sets.facilitating_SH),
        "interfering": sets.agreed(sets.interfering_SH),
    }
    lefts = [*_lefts(loaded, found["facilitating"], found["interfering"])]
    task.steps(0, len(lefts) + 1)
    base, without = evaluate(loaded.model, held_out, max_tokens), list[Evaluation]()
    for each in lefts:
        task.steps(len(without) + 1, len(lefts) + 1)
        without.append(_evaluated(loaded, held_out, each.kept, max_tokens))
    task.steps(len(lefts) + 1, len(lefts) + 1)
    sizes = {
        "facilitating": (sets.facilitating_SH > AGREED).sum(1),
        "interfering": (sets.interfering_SH > AGREED).sum(1),
    }
    starts_rho, halves_rho = _correlations(sets)
    return CausalGates(
        starts=sets.starts,
        num_trained=tuple(half.num_examples for half in halves),
        num_held_out=held_out.num_examples,
        loss=base.loss,
        facilitating=tuple(map(str, found["facilitating"])),
        interfering=tuple(map(str, found["interfering"])),
        facilitating_each=tuple(sizes["facilitating"].tolist()),
        interfering_each=tuple(sizes["interfering"].tolist()),
        facilitating_chance=_by_chance(sizes["facilitating"], len(sets.heads)),
        interfering_chance=_by_chance(sizes["interfering"], len(sets.heads)),
        starts_rho=starts_rho,
        halves_rho=halves_rho,
        checks=tuple(_checks(lefts, without, base)),
    )


def _lefts(
    loaded: Loaded, facilitating: Sequence[Head], interfering: Sequence[Head]
) -> Iterator[_Left]:
    """What is kept in every check; random heads are drawn `DRAWS` times."""
    everything, generator = [*loaded.heads], np.random.default_rng(0)

    def at_random(number: int) -> list[Head]:
        return [everything[at] for at in generator.choice(len(everything), number, replace=False)]

    yield _Left("only facilitating", facilitating)
    for _ in range(DRAWS):
        yield _Left("only random", at_random(len(facilitating)))
    if interfering:
        yield _Left("without interfering", {*everything} - {*interfering})
        for _ in range(DRAWS):
            yield _Left("without random", at_random(len(everything) - len(interfering)))
    for head in interfering:
        yield _Left("without", {*everything} - {head}, str(head))


def _evaluated(loaded: Loaded, task: Task, kept: Collection[Head], max_tokens: int) -> Evaluation:
    """The evaluation with some heads only."""
    gates = Plan.keeping(loaded.heads, kept).gates(loaded.heads)
    with Tap(loaded.model, loaded.anatomy, gates=gates):
        return evaluate(loaded.model, task, max_tokens)


def _checks(
    lefts: Sequence[_Left], without: Sequence[Evaluation], base: Evaluation
) -> Iterator[GateCheck]:
    """The checks in order; those of random heads as one, with the range of their draws."""
    loss_AN = np.stack([each.loss_N for each in without])
    found = loss_deltas(loss_AN, base.loss_N, base.count_N)
    for number, one in enumerate(lefts):
        same = [at for at, each in enumerate(lefts) if each.left == one.left]
        is_random = one.left in ("only random", "without random")
        if is_random and number != same[0]:
            continue
        drawn = found.delta[same]
        low, high = (
            (drawn.min(), drawn.max()) if is_random else (found.low[number], found.high[number])
        )
        yield GateCheck(
            left=one.left,
            head=one.head,
            num_kept=len(one.kept),
            delta=float(drawn.mean() if is_random else found.delta[number]),
            low=float(low),
            high=float(high),
        )


def _by_chance(sizes_S: np.ndarray, num_heads: int) -> float:
    """How many heads independent random sets of these sizes share on average."""
    return float(num_heads * np.prod(sizes_S / num_heads))


def _correlations(sets: GateSets) -> tuple[float, float]:
    """Rank correlations of facilitation: between starts on the same half, and between halves."""
    half_HSN = sets.facilitating_SH.reshape(2, sets.starts, -1)
    pairs = [(half[one], half[other]) for half in half_HSN for one, other in _pairs(sets.starts)]
    means = half_HSN.mean(1)
    return _mean_rho(pairs), _mean_rho([(means[0], means[1])])


def _pairs(number: int) -> list[tuple[int, int]]:
    return [*combinations(range(number), 2)]


def _mean_rho(pairs: Sequence[tuple[Float64[np.ndarray, " head"], ...]]) -> float:
    """The mean rank correlation of pairs; NaN without any."""
    if not pairs:
        return float("nan")
    one, other = (np.stack(each) for each in zip(*pairs, strict=True))
    return float(rank_correlations(one, other).mean())
