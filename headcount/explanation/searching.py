"""Search for circuits: rank heads, keep the best ones only, and see which are stable.

A cheap ranking is *refined*: an estimate of one backward pass misses some heads, and a learned
ranking says nothing of how much a head does alone. So each half of the prompts replaces, one by
one, the heads that are best by the first effect (the largest, whatever their sign) or by the
learned ranking, by what heads outside a circuit output. These heads are ranked by what is lost, and
all others by the first effect.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from jaxtyping import Float, Int

from headcount.core import Head, InputError, Progress, amount, paced
from headcount.explanation.circuit_rows import ORDERS, SIGNED, KeptRow, Order, StableRow
from headcount.explanation.circuits import Ends, Others, Ranked, areas_of, curves_of
from headcount.explanation.matryoshka import learned
from headcount.explanation.options import ExplainOptions
from headcount.explanation.prompt_runs import PromptRuns
from headcount.explanation.reason_rows import looks_of
from headcount.explanation.result import Explained
from headcount.explanation.singles import Halves, Singles, chosen
from headcount.explanation.stable import (
    kept_rows,
    no_ranking,
    stability_rows,
    stable_circuit,
    stable_rows,
    unexplained,
)
from headcount.models import Loaded
from headcount.results import RANDOM

EXACT = "exact_for_the_best"
"""Name of the ranking by exact effects of the best heads."""
_MEAN_OF_RANKS = "mean_of_ranks"
"""Name of the ranking by the mean of the places that heads have by all effects."""


@final
@dataclass(frozen=True, eq=False)
class Search:
    """What circuits are searched by, besides the effects of single heads."""

    ends: Sequence[Ends]
    """What is predicted with all heads and with none; the first one judges circuits first."""
    given: Mapping[str, Float[np.ndarray, " head"]]
    """Scores of all heads by name, measured on other data."""
    elsewhere: Others | None
    """What other heads give in prompts of other templates, on which the stable circuit is measured,
    too."""


def with_circuits(
    found: Explained, singles: Singles, search: Search, progress: Progress
) -> Explained:
    """The explanation with its circuits, what is stable of the best one, and where that looks."""
    plan, ends, effects = singles.plan, search.ends, singles.effects
    taught, seed = learned(ends[0], progress), plan.options.seed
    ranked = [
        *rankings(singles, search.given),
        *taught,
        *refined(singles, taught, ends[0], progress),
    ]
    curves = curves_of(ends, ranked, progress)
    warnings = (*found.record.warnings, *filter(None, [no_ranking(curves)]))
    record = replace(found.record, nothing=ends[0].row().nothing, warnings=warnings)
    kept, rows, heads = list[KeptRow](), list[StableRow](), list[Head]()
    stable = stable_circuit(effects, curves, plan.units, seed)
    if stable is not None:
        rows += stable_rows(stable, ends[0].others)
        heads += unexplained(rows, found)
        kept += kept_rows(stable, ends[0].others, "these")
        record = replace(record, stable=stable.ranking, stable_size=stable.size)
        if search.elsewhere is not None:
            kept += kept_rows(stable, search.elsewhere, "elsewhere")
    found = replace(
        found,
        record=record,
        faithfulness=tuple(row for curve in curves for row in curve.rows()),
        circuits=tuple(row for curve in curves for row in curve.circuits()),
        areas=tuple(areas_of(curves)),
        complements=tuple(end.row() for end in ends),
        stability=tuple(stability_rows(effects, curves, seed)),
        stable=tuple(rows),
        kept=tuple(kept),
    )
    return looks_of(found, plan, heads, progress)


def ordered(
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
    if scores and options.has_mlps:
        raise InputError(
            f"Expected rankings of heads and MLPs, got {', '.join(scores)}, which rank heads alone."
            " Leave --units or the scores out."
        )
    for name, each in scores.items():
        if {*each} != {*loaded.heads} or not np.isfinite([*each.values()]).all():
            raise InputError(
                f"Expected a number for each head of {loaded.name} ({loaded.heads}) as {name}, got "
                f"{sum(map(np.isfinite, each.values()))} for {amount(len(each), 'head')}, maybe of "
                "another model. Give scores of this model."
            )
    return {name: np.array([each[h] for h in loaded.heads]) for name, each in scores.items()}


def rankings(singles: Singles, scores: Mapping[str, Float[np.ndarray, " head"]]) -> list[Ranked]:
    """The heads by each effect, by each score, and in random orders."""
    options, num = singles.plan.options, len(singles.plan.units)
    known = {**singles.effects, **{name: each_H[None] for name, each_H in scores.items()}}
    found = [
        Ranked(name, order, [chosen(each, order)], name not in scores)
        for name, each in known.items()
        for order in ORDERS
    ]
    if len(singles.effects) > 1:
        found += [
            Ranked(_MEAN_OF_RANKS, order, [_mean_of_ranks(found, order, singles)], True)
            for order in ORDERS
        ]
    random = np.random.default_rng(options.seed)
    drawn = ((random.permutation(num), random.permutation(num)) for _ in range(options.draws))
    return [
        *found,
        Ranked(RANDOM, SIGNED, [*paced(drawn, options.draws, "draws", held=True)], True),
    ]


def _mean_of_ranks(ranked: Sequence[Ranked], order: Order, singles: Singles) -> Halves:
    """The heads by the mean of their places by all effects, for either half of the prompts."""
    halves = [
        each.halves[0] for each in ranked if each.order == order and each.ranking in singles.effects
    ]
    first, second = (
        np.mean([each[half].argsort() for each in halves], 0).argsort(kind="stable")
        for half in (0, 1)
    )
    return first, second


def refined(
    singles: Singles, learned: Sequence[Ranked], end: Ends, progress: Progress
) -> list[Ranked]:
    """The heads by exact effects of the best, for either half of the prompts; by sign and size.

    Args:
        singles: the effects of single heads; the first one ranks them.
        learned: rankings whose best heads are replaced, too.
        end: what takes the place of their outputs.
        progress: called with the number of prompts done.
    """
    plan, most = singles.plan, singles.plan.options.refining
    if not most:
        return []
    first_NH = next(iter(singles.effects.values()))
    known = [chosen(first_NH, "size"), *(halves for each in learned for halves in each.halves)]
    best = [_best(known, half, most) for half in (0, 1)]
    exact_NH = first_NH.copy()

    def of_prompt(n: int, runs: PromptRuns) -> np.ndarray:
        """What is lost without each of the heads that are best by its own half."""
        each_alone = [[plan.units[number]] for number in best[1 - n % 2]]
        return runs.value - end.others.left(n, runs, each_alone)

    for n, lost in enumerate(plan.measured(of_prompt, "exact effects of the best heads", progress)):
        exact_NH[n, best[1 - n % 2]] = lost
    return [Ranked(EXACT, order, [chosen(exact_NH, order)], True) for order in ORDERS]


def _best(known: Sequence[Halves], half: int, most: int) -> Int[np.ndarray, " best"]:
    """The best heads by any ranking, for one half of the prompts."""
    return np.unique(np.concatenate([halves[half][:most] for halves in known]))
