r"""Backups: heads that do more when another head is out.

$$\mathrm{gain}_{g|h} = \big( m(h) - m(\{h, g\}) \big) - \big( m(\emptyset) - m(g) \big)$$

m(S) is what is predicted with the heads S replaced (runs.py), so the gain of g is its effect when h
is out less its effect when h is there. A backup's gain has the sign of h's own effect: it makes up
for what is missing. For each of the best heads h, all other heads are tried, one at a time; gains
are tested over prompts and corrected for all pairs that were tried (Holm).

Reference: https://arxiv.org/abs/2607.01940 (heads with backups cost 1.9 times the sum of their
    single effects when they are removed together)
Departure: pairs, found by trying every second head; not larger sets.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from headcount.core import InputError, Progress, falling
from headcount.explanation.effects import Replacement
from headcount.explanation.plan import Plan
from headcount.explanation.prompt_runs import PromptRuns
from headcount.explanation.result import BackupRow, Explained
from headcount.explanation.singles import Singles

KEPT = 3
"""Number of the largest gains that are kept for each head."""


def with_backups(found: Explained, singles: Singles, progress: Progress) -> Explained:
    """Add the heads with the largest gains for each best head, by the first replacement.

    Raises:
        InputError: without an effect that replaces heads.
    """
    plan = singles.plan
    if not plan.options.backups:
        return found
    replacing = [each for each in plan.replacements if not each.into_second]
    if not replacing:
        raise InputError(
            f"Expected an effect that replaces heads for --backups, got "
            f"{', '.join(singles.effects)}. Add corrupt, zero or mean to --effects."
        )
    effect = replacing[0]
    alone_NH = singles.of_heads[effect.name]
    places = falling(abs(alone_NH.mean(0)))[: plan.options.backups].tolist()
    both_NBH = np.stack(
        plan.measured(lambda _, runs: _of_prompt(plan, effect, places, runs), "backups", progress)
    )
    gain_NBH = both_NBH - alone_NH[:, places, None] - alone_NH[:, None]
    return replace(found, backups=tuple(_rows(plan, effect, places, alone_NH, gain_NBH)))


def _of_prompt(
    plan: Plan, effect: Replacement, places: Sequence[int], runs: PromptRuns
) -> Float[np.ndarray, "best head"]:
    """The effect of each best head together with every other one; with itself, twice its own."""
    pairs = [[plan.heads[best], each] for best in places for each in plan.heads]
    lost_S = effect.lost(runs, [[*dict.fromkeys(pair)] for pair in pairs])
    lost_BH = lost_S.reshape(len(places), -1)
    for row, best in enumerate(places):
        lost_BH[row, best] *= 2
    return lost_BH


def _rows(
    plan: Plan,
    effect: Replacement,
    places: Sequence[int],
    alone_NH: Float[np.ndarray, "prompt head"],
    gain_NBH: Float[np.ndarray, "prompt best head"],
) -> Iterator[BackupRow]:
    """The largest gains that make up for each head."""
    p_BH = plan.blocks.p(gain_NBH.reshape(len(gain_NBH), -1)).reshape(gain_NBH.shape[1:])
    for row, best in enumerate(places):
        sign = np.sign(alone_NH[:, best].mean())
        for number in falling(sign * gain_NBH[:, row].mean(0))[:KEPT].tolist():
            gain_N = gain_NBH[:, row, number]
            if sign * gain_N.mean() > 0 and number != best:
                yield BackupRow(
                    str(plan.heads[best]),
                    str(plan.heads[number]),
                    effect.name,
                    float(alone_NH[:, number].mean()),
                    *plan.blocks.within(gain_N),
                    float(p_BH[row, number]),
                )
