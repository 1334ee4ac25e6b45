r"""Dynamic time warping: one monotone path through a map from tokens to frames, and its times.

As transformers does it for `return_token_timestamps`, a map of weights A is standardised over its
rows (one a token), smoothed over frames by a running median, and averaged over heads:

$$Z_{rf} = \mathrm{median}_{|g - f| \le 3} \frac{A_{rg} - \bar A_g}{\sigma_g}$$

The path from the first row and frame to the last, through steps to the next row, the next frame or
both, has the largest sum of Z. A token begins at the first frame of its row on the path.

Reference: Robust Speech Recognition via Large-Scale Weak Supervision (Radford et al., 2022),
https://arxiv.org/abs/2212.04356, whose code has the method
"""

import numpy as np
from jaxtyping import Float, Int

WIDTH = 7
"""Frames that a running median is over, as in Whisper's configuration."""


def standardised(
    maps_HRF: Float[np.ndarray, "head row frame"], width: int = WIDTH
) -> Float[np.ndarray, "head row frame"]:
    """Maps that are standardised over rows, then smoothed over frames.

    A frame that all rows weigh alike says nothing of where a row is, and is zero.

    Args:
        maps_HRF: the weights, cut at the end of the sound.
        width: number of frames of the median, odd.
    """
    mean_H1F, std_H1F = maps_HRF.mean(1, keepdims=True), maps_HRF.std(1, keepdims=True)
    even_HRF = np.zeros_like(maps_HRF)
    np.divide(maps_HRF - mean_H1F, std_H1F, out=even_HRF, where=std_H1F > 0)
    half = width // 2
    if maps_HRF.shape[-1] <= half:
        return even_HRF
    for each_RF in even_HRF:  # head by head, since windows take `width` times as much memory
        padded_RF = np.pad(each_RF, ((0, 0), (half, half)), mode="reflect")
        windows_RFW = np.lib.stride_tricks.sliding_window_view(padded_RF, width, axis=-1)
        each_RF[:] = np.partition(windows_RFW, half, axis=-1)[..., half]
    return even_HRF


def starts(gain_HRF: Float[np.ndarray, "head row frame"]) -> Int[np.ndarray, "head row"]:
    """The frame at which every row begins on the best path through each of some maps.

    Cells are computed diagonal by diagonal, for all maps at once. Of equal steps, one to the next
    frame is taken, as in transformers.
    """
    num_heads, num_rows, num_frames = gain_HRF.shape
    # Skewed: diagonal d = row + frame is a column, so that a step reads columns d - 1 and d - 2.
    step = np.full((num_heads, num_rows + num_frames + 1, num_rows + 1), 2, np.int8)
    nowhere = np.full((num_heads, num_rows + 1), np.inf, np.float32)
    two_before, one_before = nowhere.copy(), nowhere
    two_before[:, 0] = 0
    for diagonal in range(2, num_rows + num_frames + 1):
        row = np.arange(max(1, diagonal - num_frames), min(num_rows, diagonal - 1) + 1)
        both, down, along = two_before[:, row - 1], one_before[:, row - 1], one_before[:, row]
        is_both = (both < down) & (both < along)
        is_down = (down < both) & (down < along) & ~is_both
        least = np.where(is_both, both, np.where(is_down, down, along)).astype(np.float64)
        here = nowhere.copy()
        here[:, row] = least - gain_HRF[:, row - 1, diagonal - row - 1]
        step[:, diagonal, row] = np.where(is_both, 0, np.where(is_down, 1, 2))
        two_before, one_before = one_before, here
    return _followed_back(step, num_rows, num_frames)


def _followed_back(
    step: Int[np.ndarray, "head diagonal cell"], num_rows: int, num_frames: int
) -> Int[np.ndarray, "head row"]:
    """The first frame of every row on the paths that end in the last row and frame."""
    head = np.arange(len(step))
    row, frame = np.full(len(step), num_rows), np.full(len(step), num_frames)
    found = np.zeros((len(step), num_rows), np.int64)
    while ((row > 0) & (frame > 0)).any():
        inside = (row > 0) & (frame > 0)
        found[head[inside], row[inside] - 1] = frame[inside] - 1
        taken = step[head, row + frame, row]
        row = row - (inside & (taken != 2))
        frame = frame - (inside & (taken != 1))
    return found
