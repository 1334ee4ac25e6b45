r"""Blocks of prompts: prompts that share names count once in intervals and tests.

A prompt's own words are those that differ between it and its second prompt, its target and rival
where these stand in a prompt, and its pictures. Prompts with a word of their own in common, also by
way of others, are a block. With z_b the sum over block b of the distances from the mean of N
prompts, and B blocks, the standard error and the degrees of freedom of the mean are

$$\mathrm{se} = \frac{1}{N} \sqrt{\frac{B}{B - 1} \sum_b z_b^2}, \qquad
\nu = \frac{N^2}{\sum_b n_b^2} - 1$$

which is Student's interval over prompts where each is a block of its own. Fewer than
`statistics.FEWEST_CLUSTERS` blocks have no interval and no p-value.

Reference: Bootstrap-based improvements for inference with clustered errors (Cameron, Gelbach and
    Miller, 2008), section II, https://doi.org/10.1162/rest.90.3.414
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float, Int

from headcount.explanation.prompts import Prompt
from headcount.statistics import FEWEST_CLUSTERS, Clusters, few_clusters, holm


@final
@dataclass(frozen=True)
class Blocks:
    """Which prompts share names."""

    numbers: Int[np.ndarray, " prompt"]
    """Number of the block of each prompt."""

    @classmethod
    def of(cls, prompts: Sequence[Prompt]) -> "Blocks":
        """The blocks of some prompts.

        >>> one, other = Prompt("Ann met Tom", " Ann"), Prompt("Tom met Sue", " Tom")
        >>> Blocks.of([one, other, Prompt("Sue left", " Sue")]).numbers.tolist()
        [0, 1, 2]
        >>> Blocks.of([one, Prompt("Eve met Ann", " Eve", " Ann")]).numbers.tolist()
        [0, 0]
        """
        from scipy.sparse.csgraph import connected_components

        said = {word for each in prompts for word in _words(each.prompt)}
        own = [_own(each, said) for each in prompts]
        place = {word: n for n, word in enumerate(dict.fromkeys(w for each in own for w in each))}
        pairs = [(n, place[word]) for n, each in enumerate(own) for word in each]
        has_NW = np.zeros((len(prompts), len(place)))
        has_NW[tuple(np.array(pairs, dtype=int).reshape(-1, 2).T)] = 1
        return cls(connected_components(has_NW @ has_NW.T, directed=False)[1])

    @property
    def count(self) -> int:
        """Number of blocks."""
        return int(self.numbers.max()) + 1

    def warnings(self) -> Iterator[str]:
        """Why several prompts have no interval."""
        if len(self.numbers) > 1:
            which = "intervals over prompts, of which those with the same names count once,"
            yield from few_clusters(self.count, "block", which)

    def interval(self, values_N: Float[np.ndarray, "prompt ..."]) -> Float[np.ndarray, "3 ..."]:
        """The mean and both ends of its 95 % interval."""
        from scipy.special import stdtrit

        mean, error, degrees = self._moments(values_N)
        reach = stdtrit(degrees, 0.975) * error
        return np.stack([mean, mean - reach, mean + reach])

    def within(self, value_N: Float[np.ndarray, " prompt"]) -> tuple[float, float, float]:
        """`interval` of one number."""
        mean, low, high = self.interval(value_N).tolist()
        return mean, low, high

    def p(self, values_NH: Float[np.ndarray, "prompt head"]) -> Float[np.ndarray, " head"]:
        """P-values of no effect on average, two-sided and corrected for all heads (Holm)."""
        from scipy.special import stdtr

        mean_H, error_H, degrees = self._moments(values_NH)
        sure_H = np.where(mean_H == 0, 0.0, np.inf)
        far_H = np.divide(abs(mean_H), error_H, out=sure_H, where=error_H != 0)
        return holm(np.where(np.isnan(error_H), np.nan, 2 * stdtr(degrees, -far_H)))

    def _moments(
        self, values_N: Float[np.ndarray, "prompt ..."]
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """The mean, its standard error, and the degrees of freedom."""
        mean, num = np.asarray(values_N.mean(0)), self.count
        size_B = np.bincount(self.numbers).astype(float)
        if num < FEWEST_CLUSTERS:
            return mean, np.full(mean.shape, np.nan), 1.0
        away_B = np.zeros((num, *mean.shape))
        np.add.at(away_B, self.numbers, values_N - mean)
        error = np.sqrt(num / (num - 1) * (away_B**2).sum(0)) / len(values_N)
        return mean, np.asarray(error), Clusters.of(size_B, size_B, shares=False).degrees


def apart(
    one: tuple[Blocks, Float[np.ndarray, "first head"]],
    other: tuple[Blocks, Float[np.ndarray, "second head"]],
) -> tuple[Float[np.ndarray, "3 head"], Float[np.ndarray, " head"]]:
    """By how much the means over other prompts are larger, with 95 % intervals (Welch), and p.

    P-values of no difference are two-sided and corrected for all heads (Holm).

    Args:
        one: some prompts and the effects of heads on them.
        other: other prompts, and the same.
    """
    from scipy.special import stdtr, stdtrit

    first, second = (blocks._moments(values_NH) for blocks, values_NH in (one, other))
    mean_H, error_H = second[0] - first[0], np.hypot(first[1], second[1])
    parts_H = sum(each[1] ** 4 / each[2] for each in (first, second))
    degrees_H = np.divide(error_H**4, parts_H, out=np.ones_like(mean_H), where=parts_H > 0)
    reach_H = stdtrit(degrees_H, 0.975) * error_H
    sure_H = np.where(mean_H == 0, 0.0, np.inf)
    far_H = np.divide(abs(mean_H), error_H, out=sure_H, where=error_H != 0)
    p_H = np.where(np.isnan(error_H), np.nan, 2 * stdtr(degrees_H, -far_H))
    return np.stack([mean_H, mean_H - reach_H, mean_H + reach_H]), holm(p_H)


def _words(text: str) -> set[str]:
    return {*re.findall(r"\w+", text)}


def _own(prompt: Prompt, said: set[str]) -> list[str]:
    """The words that a prompt has for itself."""
    both = _words(prompt.prompt), _words(prompt.corrupt or prompt.prompt)
    answers = {each.strip() for each in (prompt.target, prompt.against) if each}
    shown = {each.digest for each in prompt.pictures}
    return sorted((both[0] ^ both[1]) | (answers & said) | shown)
