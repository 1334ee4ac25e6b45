"""Refined: a cheap ranking whose best heads are ranked again by their exact effects.

An estimate of one backward pass misses some heads, and a learned ranking says nothing of how much a
head does alone. So each half of the prompts replaces, one by one, the heads that are best by the
first effect (the largest, whatever their sign) or by the learned ranking, by what heads outside a
circuit output. These heads are ranked by what is lost, and all others by the first effect.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from headcount.core import Progress, spread
from headcount.explanation.circuit_rows import ORDERS
from headcount.explanation.circuits import Ends, Ranked
from headcount.explanation.plan import Halves, Singles, chosen

NAME = "exact_for_the_best"


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
    heads, num = plan.units, len(plan.cases)
    exact_NH = first_NH.copy()

    def of_prompt(n: int) -> np.ndarray:
        """What is lost without each of the heads that are best by its own half."""
        runs = plan.runs(plan.cases[n])
        return runs.value - end.others.left(n, runs, [[heads[each]] for each in best[1 - n % 2]])

    for n, lost in enumerate(spread(of_prompt, range(num), "prompts")):
        exact_NH[n, best[1 - n % 2]] = lost
        progress("exact effects of the best heads", n + 1, num)
    return [Ranked(NAME, order, [chosen(exact_NH, order)], True) for order in ORDERS]


def _best(known: Sequence[Halves], half: int, most: int) -> Int[np.ndarray, " best"]:
    """The best heads by any ranking, for one half of the prompts."""
    return np.unique(np.concatenate([halves[half][:most] for halves in known]))
