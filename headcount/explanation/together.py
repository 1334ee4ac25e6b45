"""Together: the best heads by an effect replaced at once, beside random heads.

Random heads have the same number in each layer where at least `FEWEST_SETS` different sets do;
otherwise they are of any layer.

With enough prompts, the best heads of each half are those by the other half's mean effects, so that
no prompt chooses its own heads.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import comb, prod
from typing import final

import numpy as np
from jaxtyping import Float

from headcount.core import Head, Progress, paced
from headcount.explanation.effects import Replacement
from headcount.explanation.prompt_runs import PromptRuns
from headcount.explanation.result import Explained, JointRow
from headcount.explanation.singles import Singles, chosen


def with_joint(found: Explained, singles: Singles, progress: Progress) -> Explained:
    """Add a row for each number of best heads, by each effect of a replacement."""
    plan = singles.plan
    sets = [
        Together(effect, ranking, singles, size)
        for effect in plan.replacements
        for ranking in _rankings(effect, singles.effects)
        for size in plan.options.together
        if size < len(plan.heads)
    ]

    def of_prompt(n: int, runs: PromptRuns) -> list[Float[np.ndarray, " set"]]:
        return [each.effect.lost(runs, each.sets(n)) for each in sets]

    lost = plan.measured(of_prompt, "heads together", progress) if sets else []
    rows = (each.row(np.stack(lost_NS)) for each, *lost_NS in zip(sets, *lost, strict=True))
    return replace(found, joint=tuple(rows))


def _rankings(effect: Replacement, known: Mapping[str, object]) -> Iterator[str]:
    """The effects whose best heads are replaced: itself, and for zero also attribution."""
    yield effect.name
    if effect.name == "zero":
        yield from (name for name in ("attribution", "gradient") if name in known)


@final
class Together:
    """Some number of best heads that are replaced together.

    Args:
        effect: the effect.
        ranking: name of the effect by which they are the best.
        singles: the effects of every head alone.
        size: the number of best ones.
    """

    def __init__(self, effect: Replacement, ranking: str, singles: Singles, size: int) -> None:
        self.effect, self._singles = effect, singles
        self.ranking, self.size = ranking, size
        heads, others = singles.plan.heads, [*singles.plan.loaded.heads]
        options = singles.plan.options
        random = np.random.default_rng((options.seed, size))
        self._numbers = [order_H[:size] for order_H in chosen(singles.of_heads[ranking])]
        """Numbers of the best heads for either half of the prompts."""
        self._best = [[heads[number] for number in each] for each in self._numbers]
        self._by_layer = all(_are_many(best, others) for best in self._best)
        self._drawn = [
            [
                *paced(
                    (_draw(best, others, random, self._by_layer) for _ in range(options.draws)),
                    options.draws,
                    "draws",
                    held=True,
                )
            ]
            for best in self._best
        ]

    def sets(self, prompt: int) -> list[list[Head]]:
        """The best heads for a prompt, and random ones."""
        return [self._best[prompt % 2], *self._drawn[prompt % 2]]

    def row(self, effect_NS: Float[np.ndarray, "prompt set"]) -> JointRow:
        """The effect together, the sum of single effects, and the effect of random heads."""
        singles, blocks = self._singles, self._singles.plan.blocks
        has_rival_N = [bool(case.prompt.against) for case in singles.plan.cases]
        before_N = singles.second_N if self.effect.into_second else singles.value_N
        before_N = np.where(has_rival_N, before_N, np.nan)
        sign = -1 if self.effect.into_second else 1
        sets_S = effect_NS[:, 1:].mean(0)
        preferred_S = _preferred(before_N[:, None] - sign * effect_NS)
        singles_N = np.array(
            [
                each_H[self._numbers[n % 2]].sum()
                for n, each_H in enumerate(singles.of_heads[self.effect.name])
            ]
        )
        random_N = effect_NS[:, 1:].mean(1)
        value, low, high = blocks.within(effect_NS[:, 0])
        _, excess_low, excess_high = blocks.within(effect_NS[:, 0] - singles_N)
        random, random_low, random_high = blocks.within(random_N)
        names = dict.fromkeys(" ".join(map(str, best)) for best in self._best)
        return JointRow(
            effect=self.effect.name,
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
            drawn="layers" if self._by_layer else "all",
        )


def _preferred(
    left_NS: Float[np.ndarray, "prompt set"],
) -> Float[np.ndarray, " set"]:
    """Number of prompts that prefer the target to its rival; NaN if no prompt has a rival."""
    number_S = (left_NS > 0).sum(0)
    return np.where(np.isnan(left_NS).all(0), np.nan, number_S)


FEWEST_SETS = 20
"""Number of different sets of the same layers below which random heads are of any layer."""


def _are_many(best: Sequence[Head], heads: Sequence[Head]) -> bool:
    """Whether enough sets of other heads have as many in each layer."""
    wanted = Counter(head.layer_id for head in best)
    rest = Counter(head.layer_id for head in heads if head not in best)
    return prod(comb(rest[layer], num) for layer, num in wanted.items()) >= FEWEST_SETS


def _draw(
    best: Sequence[Head], heads: Sequence[Head], random: np.random.Generator, by_layer: bool
) -> list[Head]:
    """Draw as many other heads, of the same layers or of any."""
    drawn = list[Head]()
    for head in best:
        others = [each for each in heads if each not in best and each not in drawn]
        here = [each for each in others if not by_layer or each.layer_id == head.layer_id]
        drawn += [here[random.integers(len(here))]] if here else []
    return drawn
