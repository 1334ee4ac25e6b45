"""Together: the best heads replaced at once, beside random heads of the same layers.

With enough prompts, the best heads of each half are those by the other half's mean effects, so that
no prompt chooses its own heads.
"""

from collections.abc import Mapping, Sequence
from typing import final

import numpy as np
from jaxtyping import Float, Int

from headcount.core import Head
from headcount.explanation.options import ExplainOptions
from headcount.results import SPLIT_FROM, JointRow
from headcount.statistics import mean_interval
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
            [_draw(best, others, random) for _ in range(options.draws)] for best in self._best
        ]
        self._together = list[Float[np.ndarray, " set"]]()

    def sets(self, prompt: int) -> list[list[Head]]:
        """The best heads for a prompt, and random ones."""
        return [self._best[prompt % 2], *self._drawn[prompt % 2]]

    def add(self, effect_S: Float[np.ndarray, " set"]) -> None:
        """Add the effects of the sets of the next prompt."""
        self._together.append(effect_S)

    def row(self) -> JointRow:
        """The effect together, the sum of single effects, and the effect of random heads."""
        effect_NS = np.stack(self._together)
        singles_N = np.array(
            [each_H[self._numbers[n % 2]].sum() for n, each_H in enumerate(self._single_NH)]
        )
        random_N = effect_NS[:, 1:].mean(1)
        excess = interval(effect_NS[:, 0] - singles_N)
        bounds, random = interval(effect_NS[:, 0]), interval(random_N)
        names = dict.fromkeys(" ".join(map(str, best)) for best in self._best)
        return JointRow(
            effect=self.effect,
            ranking=self.ranking,
            heads=self.size,
            names=" | ".join(names),
            value=float(bounds[1]),
            low=float(bounds[0]),
            high=float(bounds[2]),
            singles=float(singles_N.mean()),
            excess_low=float(excess[0]),
            excess_high=float(excess[2]),
            random=float(random[1]),
            random_low=float(random[0]),
            random_high=float(random[2]),
        )


def chosen(
    effect_NH: Float[np.ndarray, "prompt head"],
) -> tuple[Int[np.ndarray, " head"], Int[np.ndarray, " head"]]:
    """Numbers of heads, the best first, for either half of the prompts by the other's effects."""
    is_split = len(effect_NH) >= SPLIT_FROM
    choosing = (effect_NH[1::2], effect_NH[::2]) if is_split else (effect_NH, effect_NH)
    first_H, second_H = (np.argsort(-each.mean(0), kind="stable") for each in choosing)
    return first_H, second_H


def _draw(best: Sequence[Head], heads: Sequence[Head], random: np.random.Generator) -> list[Head]:
    """Draw as many other heads of the same layers, or of any layer where one has no others."""
    drawn = list[Head]()
    for head in best:
        others = [each for each in heads if each not in best and each not in drawn]
        here = [each for each in others if each.layer_id == head.layer_id] or others
        drawn += [here[random.integers(len(here))]] if here else []
    return drawn


def interval(values_N: Float[np.ndarray, "prompt ..."]) -> Float[np.ndarray, "3 ..."]:
    """The low end of the 95 % interval, the mean and the high end; no ends for one prompt."""
    if len(values_N) > 1:
        return mean_interval(values_N)
    unknown = np.full(values_N.shape[1:], np.nan)
    return np.stack([unknown, values_N[0], unknown])
