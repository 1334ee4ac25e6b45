r"""Scores of heads without word times: which cross-attention heads follow the sound.

For every head, from its map A of rows (tokens) and frames and the frames $s_r$ at which rows begin
on its own path (`warping`):

- agreement, $-\frac{1}{R} \sum_r |s_r - \mathrm{median}_{g \ne h}\, s^g_r|$ frames: leave one out;
- gain, the mean of the standardised map along its path;
- monotone, the share of successive rows whose largest weight moves on;
- coverage, the share of the frames between the first and the last row's largest weight;
- norm, $\sum_r \lVert A_r \rVert + \sum_f \lVert A_{\cdot f} \rVert$, large for maps that are sharp
  and reach all frames.

Heads are ranked by agreement. Noise pulls the median path, so the worse half of the heads is left
out of it, again and again, until twice as many remain as are wanted. Where nearly all heads are
noise and speech is far from even, the first median is that of noise, and the list is of noise, too.

References: norm: Whisper Has an Internal Word Aligner (Yeh et al., 2025), section 3,
    https://arxiv.org/abs/2509.09987
Departure: they choose heads for each recording by the norm. `generate` reads one fixed list, so
    ranks are averaged over recordings.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.stats import rankdata

Starts = Sequence[Int[np.ndarray, "_ _"]]
"""The frames at which rows begin, by head, of every recording."""


MAP_SCORES = ("gain", "monotone", "coverage", "norm")
"""What is read from one map and the path through it, in order."""


def map_scores(
    maps_HRF: Float[np.ndarray, "head row frame"],
    gains_HRF: Float[np.ndarray, "head row frame"],
    starts_HR: Int[np.ndarray, "head row"],
) -> Float[np.ndarray, "score head"]:
    """The scores of every head's map of one recording, in the order of `MAP_SCORES`.

    Args:
        maps_HRF: the weights.
        gains_HRF: the standardised maps.
        starts_HR: the frames at which rows begin on their paths.
    """
    frame_F = np.arange(maps_HRF.shape[-1])
    row_HF = (starts_HR[..., None] <= frame_F).sum(1) - 1
    gain_H = np.take_along_axis(gains_HRF, row_HF[:, None], axis=1).mean((1, 2))
    peak_HR = maps_HRF.argmax(-1)
    moves = np.diff(peak_HR, axis=1) > 0
    monotone_H = moves.mean(1) if moves.shape[1] else np.zeros(len(maps_HRF))
    coverage_H = np.ptp(peak_HR, axis=1) / maps_HRF.shape[-1]
    norm_H = np.linalg.norm(maps_HRF, axis=1).sum(-1) + np.linalg.norm(maps_HRF, axis=2).sum(-1)
    return np.stack([gain_H, monotone_H, coverage_H, norm_H])


def disagreement(starts: Starts, among: Sequence[int]) -> Float[np.ndarray, "recording head"]:
    """Mean frames between the path of each head and the median path of some others."""
    is_among_H1 = np.isin(np.arange(len(starts[0])), among)[:, None]
    return np.stack(
        [
            np.abs(starts_HR - median_of_others(starts_HR, is_among_H1)).mean(1)
            for starts_HR in starts
        ]
    )


def median_of_others(
    starts_HR: Int[np.ndarray, "head row"], is_among_H1: Bool[np.ndarray, "head 1"]
) -> Float[np.ndarray, "head row"]:
    """For every head the median of those that are among some, itself left out.

    All are sorted once: without one of them, places from its own on move by one.
    """
    sorted_AR = np.sort(starts_HR[is_among_H1[:, 0]], axis=0)
    number = len(sorted_AR)

    def at(place: int) -> Int[np.ndarray, "head row"]:
        here, after = sorted_AR[place], sorted_AR[min(place + 1, number - 1)]
        return np.where(is_among_H1 & (starts_HR <= here), after, here)

    all_R = np.median(sorted_AR, axis=0)
    left = number - 1
    without_HR = (at(max(left - 1, 0) // 2) + at(left // 2)) / 2
    return np.where(is_among_H1, without_HR, all_R)


def agreeing(starts: Starts, wanted: int) -> Float[np.ndarray, "recording head"]:
    """Frames between the path of each head and the median path of the heads that agree best.

    Args:
        starts: the frames at which rows begin.
        wanted: number of heads that will be chosen.
    """
    among = [*range(len(starts[0]))]
    while True:
        found_SH = disagreement(starts, among)
        if len(among) <= 2 * wanted:
            return found_SH
        number = max(2 * wanted, len(among) // 2)
        among = [head for head in ranked(found_SH).tolist() if head in among][:number]


def ranked(disagreement_SH: Float[np.ndarray, "recording head"]) -> Int[np.ndarray, " head"]:
    """The numbers of the heads, the best first, by the mean over recordings of their ranks."""
    ranks_SH = np.stack([rankdata(each_H) for each_H in disagreement_SH])
    return np.argsort(ranks_SH.mean(0), kind="stable")
