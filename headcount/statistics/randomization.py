r"""Paired approximate randomization: a test of scores that are functions of sums, with an interval.

A swap exchanges the results of both systems on every example with a fair coin. If the systems do
not differ, no swap changes the distribution of the difference d, so that, over S swaps,

$$p = \frac{1 + \#\{ |d_s| \ge |d| \}}{S + 1}$$

The interval inverts this test. A true difference x contributes x m_s to the difference d_s, where
m_s is the share of the weight (predicted tokens) on the examples that are not swapped minus the share on those
that are. So x is rejected where |d_s - x m_s| >= |d - x| holds for few swaps, and

$$p(x) = \frac{1 + \#\{ |d_s - x m_s| \ge |d - x| \}}{S + 1}, \qquad \{ x : p(x) \ge 0.05 \}$$

is the 95 % interval: it leaves 0 out exactly where p < 0.05. Each swap does not reject the values
between (d - d_s) / (1 - m_s) and (d + d_s) / (1 + m_s), which include d, so both ends are order
statistics.

Reference: Computer-Intensive Methods for Testing Hypotheses (Noreen, 1989); More Accurate Tests for
    the Statistical Significance of Result Differences (Yeh, 2000), https://aclanthology.org/C00-2137;
    machine translation: Riezler and Maxwell (2005), https://aclanthology.org/W05-0908
Departure: the sources give no interval. Inverting is exact for means and approximate for BLEU, chrF,
    F1 and Matthews' correlation, since a swap's effect on them is not quite linear.
"""  # noqa: E501

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from headcount.statistics.p_values import in_parts, p_of_draws, swaps
from headcount.statistics.significance import NOISE, least_rank

FEWEST_SWAPS = 10_000
"""Smallest number of swaps by default."""

OfSums = Callable[[Float[np.ndarray, "draw statistic"]], Float[np.ndarray, " draw"]]
"""Scores of many sums."""

KEPT = 2**22
"""Number of swapped sums in memory at a time."""


def randomized(
    base_NK: Float[np.ndarray, "example statistic"],
    without: Sequence[Float[np.ndarray, "example statistic"]],
    weight_N: Float[np.ndarray, " example"],
    score: OfSums,
    num_samples: int = FEWEST_SWAPS,
    seed: int = 0,
) -> Float[np.ndarray, "4 head"]:
    """Delta (score of the base minus the other), both ends of the interval, and p, for every head.

    Args:
        base_NK: Counts of the dense model.
        without: Counts without each head.
        weight_N: Weight of every example in the interval: its number of predicted tokens.
        score: The score of sums of counts; higher is better.
        num_samples: Number of swaps, which all heads share.
        seed: Seed of the swaps.
    """
    num = len(base_NK)
    share_S = np.concatenate(
        [1 - 2 * (swap_SN @ weight_N) / weight_N.sum() for swap_SN in swaps(num, num_samples, seed)]
    )
    # As many heads at a time as their counts and differences fit into memory
    at_once = max(1, KEPT // max(base_NK.size, num_samples))
    found = []
    for done in range(0, len(without), at_once):
        part_HNK = np.stack(without[done : done + at_once])
        delta_H, swapped_SH = _differences(base_NK, part_HNK, score, num_samples, seed)
        found += [
            (delta, *_inverted(float(delta), swapped_S, share_S))
            for delta, swapped_S in zip(delta_H, swapped_SH.T, strict=True)
        ]
    return np.array(found, float).T.reshape(4, len(without))


def _differences(
    base_NK: np.ndarray, without_HNK: np.ndarray, score: OfSums, num_samples: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """The differences of some heads, as they are and after every swap."""
    heads, examples, statistics = without_HNK.shape
    more_NJ = (without_HNK - base_NK).transpose(1, 0, 2).reshape(examples, heads * statistics)
    base_J, without_J = np.tile(base_NK.sum(0), heads), without_HNK.sum(1).ravel()

    def of(moved_SJ: np.ndarray) -> np.ndarray:
        base_S, without_S = (
            score(sums_SJ.reshape(-1, statistics))
            for sums_SJ in (base_J + moved_SJ, without_J - moved_SJ)
        )
        return (base_S - without_S).reshape(-1, heads)

    delta_1H = of(np.zeros((1, heads * statistics)))
    swapped = [
        of(rows_SN @ more_NJ)
        for swap_SN in swaps(examples, num_samples, seed)
        for rows_SN in in_parts(swap_SN, heads * statistics)
    ]
    return delta_1H[0], np.concatenate(swapped)


def _inverted(
    delta: float, swapped_S: np.ndarray, share_S: np.ndarray
) -> tuple[float, float, float]:
    """Both ends of the interval, and p."""
    is_mixed_S = abs(share_S) < 1 - 1e-12
    swapped_M, share_M = swapped_S[is_mixed_S], share_S[is_mixed_S]
    edges_2M = np.stack([(delta - swapped_M) / (1 - share_M), (delta + swapped_M) / (1 + share_M)])
    noise = NOISE * max(abs(delta), abs(swapped_S).max())  # -delta after a swap of all that differ
    # A swap of all or none of the examples rejects no value
    low_S, high_S = np.full((2, len(swapped_S)), [[-np.inf], [np.inf]])
    low_S[is_mixed_S], high_S[is_mixed_S] = edges_2M.min(0), edges_2M.max(0)
    num = len(swapped_S)
    p = float(p_of_draws((low_S <= noise) & (high_S >= -noise)))
    rank = least_rank(num)
    if rank < 1:
        return np.nan, np.nan, p
    low = float(np.partition(low_S, rank - 1)[rank - 1])
    high = float(np.partition(high_S, num - rank)[num - rank])
    return (low, high, p) if np.isfinite([low, high]).all() else (np.nan, np.nan, p)
