"""Attention from the tokens of a transcript to frames of sound, by definition.

References: after sinks: Clark et al. (2019), section 3.2, https://arxiv.org/abs/1906.04341; after
    heads that look at one place: no paper
"""

import numpy as np


def of_sentence(A: np.ndarray, frames: int, name: str, moment: int = 0) -> list[list[float]]:
    """For every head and token the weight on a class of frames.

    Args:
        A: the weights [head, query, key]; keys behind the sound are silence.
        frames: number of frames of the sound.
        name: `start`, the first frame; `silence`, all behind the sound; `moment`, one frame.
        moment: which frame that is.
    """
    heads, queries, keys = A.shape
    found = [[0.0] * queries for _ in range(heads)]
    for head in range(heads):
        for query in range(queries):
            for key in range(keys):
                is_in = {"start": key == 0, "silence": key >= frames, "moment": key == moment}
                if is_in[name]:
                    found[head][query] += float(A[head, query, key])
    return found
