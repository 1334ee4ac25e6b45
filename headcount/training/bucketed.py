"""Batches by length: examples of like length together, up to a budget of padded tokens.

Every epoch sorts all examples by length, equals in a new order, cuts the sorted row into batches
and shuffles the batches. Where the cuts fall depends on the lengths alone, so all epochs have the
same number of batches, and batch i of the whole training is found without running those before it:
a resumed training goes on with the batch that it stopped before.
"""

from typing import final

import numpy as np
from jaxtyping import Int
from torch.utils.data import Dataset


def cuts(length_N2: Int[np.ndarray, "example 2"], max_tokens: int) -> list[slice]:
    """Where the sorted row of examples is cut.

    Args:
        length_N2: tokens of the two sides of every example, sorted as they are batched.
        max_tokens: a batch's number of examples times its longest side is at most this; a longer
            example goes alone.
    """
    longer_N = length_N2.max(1).tolist()
    found, first, longest = [], 0, 0
    for index, length in enumerate(longer_N):
        longest = max(longest, length)
        if index > first and (index - first + 1) * longest > max_tokens:
            found.append(slice(first, index))
            first, longest = index, length
    return [*found, slice(first, len(longer_N))]


@final
class Batches(Dataset):
    """All batches of all epochs; item i is the examples' numbers in batch i of the training.

    Args:
        length_N2: tokens of the two sides of every example; the same twice where there is one.
        max_tokens: padded tokens of the longer side in a batch.
        epochs: how often every example comes.
        seed: of the order.
        multiple: the number of batches of an epoch is cut down to a multiple of this, so that
            several processes get equally many; which batches are left out changes by epoch.
    """

    def __init__(
        self,
        length_N2: Int[np.ndarray, "example 2"],
        max_tokens: int,
        epochs: int,
        seed: int,
        multiple: int = 1,
    ) -> None:
        self._length_N2, self._epochs, self._seed = length_N2, epochs, seed
        self._cuts = cuts(length_N2[self._sorted(np.zeros(len(length_N2)))], max_tokens)
        self.per_epoch = max(len(self._cuts) // multiple * multiple, min(multiple, 1))
        self._epoch, self._batches = -1, []

    def __len__(self) -> int:
        return self.per_epoch * self._epochs

    def __getitem__(self, index: int) -> Int[np.ndarray, " some"]:
        epoch, place = divmod(index, self.per_epoch)
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, self._planned(epoch)
        return self._batches[place]

    def _planned(self, epoch: int) -> list[Int[np.ndarray, " some"]]:
        generator = np.random.default_rng((self._seed, epoch))
        index_N = self._sorted(generator.random(len(self._length_N2)))
        order = generator.permutation(len(self._cuts))
        return [index_N[self._cuts[number]] for number in order]

    def _sorted(self, tie_N: np.ndarray) -> Int[np.ndarray, " example"]:
        return np.lexsort((tie_N, self._length_N2[:, 0], self._length_N2[:, 1]))
