"""Batches by length: examples of like length together, up to a budget of padded tokens.

Every epoch sorts all examples by length, equals in a new order, cuts the sorted row into batches
and shuffles the batches: of thousands of sentences the batches are new in every epoch, of a few
hundred mostly their order is. Where the cuts fall depends on the lengths alone, so all epochs have
the same number of batches, and batch i of the whole training is found without running those before
it: a resumed training goes on with the batch that it stopped before.
"""

from typing import final

import numpy as np
from jaxtyping import Float, Int
from torch.utils.data import Dataset

from headcount.errors import InputError

Numbered = tuple[int, Int[np.ndarray, " some"]]
"""A batch's number in the training, and the numbers of its examples."""


@final
class Batches(Dataset):
    """All batches of all epochs.

    Args:
        length_NS: tokens of the sides of every example.
        max_tokens: a batch's number of examples times its longest side is at most this; a longer
            example goes alone.
        epochs: how often every example comes.
        seed: of the order.
        multiple: the number of batches of an epoch is cut down to a multiple of this, so that all
            steps, of all processes, get equally many; which are left out changes by epoch.

    Raises:
        InputError: if there are fewer batches than `multiple`.
    """

    def __init__(
        self,
        length_NS: Int[np.ndarray, "example side"],
        max_tokens: int,
        epochs: int,
        seed: int,
        multiple: int = 1,
    ) -> None:
        self._length_NS, self._epochs, self._seed = length_NS, epochs, seed
        index_N = self._sorted(np.zeros(len(length_NS)))
        self._cuts = cuts(length_NS[index_N].max(1), max_tokens)
        self.per_epoch = len(self._cuts) // multiple * multiple
        if not self.per_epoch:
            raise InputError(
                f"expected at least {multiple} batches, one for each process and accumulated "
                f"gradient; the data makes {len(self._cuts)}: set batch_tokens lower than "
                f"{max_tokens}"
            )
        self._epoch = -1
        self._batches: list[Int[np.ndarray, " some"]] = []

    def __len__(self) -> int:
        return self.per_epoch * self._epochs

    def __getitem__(self, index: int) -> Numbered:
        epoch, place = divmod(index, self.per_epoch)
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, self._planned(epoch)
        return index, self._batches[place]

    def _planned(self, epoch: int) -> list[Int[np.ndarray, " some"]]:
        generator = np.random.default_rng((self._seed, epoch))
        index_N = self._sorted(generator.random(len(self._length_NS)))
        order = generator.permutation(len(self._cuts))
        return [index_N[self._cuts[number]] for number in order]

    def _sorted(self, tie_N: Float[np.ndarray, " example"]) -> Int[np.ndarray, " example"]:
        """By the length of the last side, then of the first; equals by `tie_N`."""
        return np.lexsort((tie_N, *self._length_NS.T))


def cuts(length_N: Int[np.ndarray, " example"], max_tokens: int) -> list[slice]:
    """Where a row of examples is cut into batches of at most `max_tokens` padded tokens."""
    found, first, longest = [], 0, 0
    for index, length in enumerate(length_N.tolist()):
        longest = max(longest, length)
        if index > first and (index - first + 1) * longest > max_tokens:
            found.append(slice(first, index))
            first, longest = index, length
    return [*found, slice(first, len(length_N))]
