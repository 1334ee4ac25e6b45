"""Distances in place of attention: the baseline that knows the words and where they stand.

Map k is 1 where the key is at offset k from the query, from -10 (and further) to 10 (and further).
The places of special tokens are those directly before and after the sentence. So the attention
probe reads distances as it reads attention.

Departure: Clark et al. (2019) do not say how their distances + GloVe baseline reads distances.
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headcount.probes.attention_probe import ProbeData
from headcount.probes.features import slots
from headcount.probes.treebank import ProbeSentence
from headcount.probes.vectors import WordVectors

REACH = 10
"""Largest offset with a map of its own; further words share one with it."""

NUM_MAPS = 2 * REACH + 1


def distance_data(
    sentences: Sequence[ProbeSentence], vectors: WordVectors | None = None
) -> ProbeData:
    """The data of a probe that reads distances."""

    def maps_of(indices: Sequence[int]) -> Float[Tensor, "batch query key map"]:
        lengths = [len(sentences[index].words) for index in indices]
        size = max(lengths) + 2
        maps_BNNK = np.zeros((len(lengths), size, size, NUM_MAPS), dtype=np.float32)
        for row, length in enumerate(lengths):
            place = slots(length, max(lengths))
            maps_BNNK[row][np.ix_(place, place)] = distance_map(length)
        return torch.from_numpy(maps_BNNK)

    return ProbeData(sentences, NUM_MAPS, maps_of, vectors)


def distance_map(length: int) -> Float[np.ndarray, "query key map"]:
    """The maps of one sentence of some words; a word has no distance to itself."""
    position_N = np.array([*range(length), -1, length])
    offset_NN = np.clip(position_N[None] - position_N[:, None], -REACH, REACH)
    maps_NNK = np.eye(NUM_MAPS, dtype=np.float32)[offset_NN + REACH]
    maps_NNK[..., REACH] = 0
    return maps_NNK
