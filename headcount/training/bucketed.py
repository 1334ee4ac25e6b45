"""Batches by length: examples of like length together, up to a budget of padded tokens.

Every epoch sorts all examples by length, equals in a new order, cuts the sorted row into batches
and shuffles the batches: of thousands of sentences the batches are new in every epoch, of a few
hundred mostly their order is. Where the cuts fall depends on the lengths alone, so all epochs have
the same number of batches, and batch i of the whole training is found without running those before
it: a resumed training goes on with the batch that it stopped before.

Examples can be joined in pairs. What is paired are places in the sorted row, so that the lengths of
the pairs are the same in every epoch, but the examples at these places are new ones.

Reference: Sentence Concatenation Approach to Data Augmentation for Neural Machine Translation
(Kondo et al., 2021), https://arxiv.org/abs/2104.08478
"""

from typing import final

import numpy as np
from jaxtyping import Float, Int
from torch.utils.data import Dataset

from headcount.errors import InputError

NO_PART = -1
"""In place of the second part of an example that is not joined."""

Parts = Int[np.ndarray, "joined part"]
"""Numbers of the examples that are one, or two that are joined."""

Numbered = tuple[int, Parts]
"""A batch's number in the training, and its examples."""


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
        joined: share of the examples that come joined to another one.
        longest: tokens of a side that two joined ones may have.

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
        joined: float = 0.0,
        longest: int = 256,
    ) -> None:
        self._length_NS, self._epochs, self._seed = length_NS, epochs, seed
        sorted_NS = length_NS[self._sorted(np.zeros(len(length_NS)))]
        self._place_EP, self._total_ES = _joined(sorted_NS, joined, longest, seed)
        order_E = np.lexsort(self._total_ES.T)
        self._cuts = cuts(self._total_ES[order_E].max(1), max_tokens)
        self.per_epoch = len(self._cuts) // multiple * multiple
        if not self.per_epoch:
            raise InputError(
                f"expected at least {multiple} batches, one for each process and accumulated "
                f"gradient; the data makes {len(self._cuts)}: set batch_tokens lower than "
                f"{max_tokens}"
            )
        self._epoch = -1
        self._batches: list[Parts] = []

    def __len__(self) -> int:
        return self.per_epoch * self._epochs

    def __getitem__(self, index: int) -> Numbered:
        epoch, place = divmod(index, self.per_epoch)
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, self._planned(epoch)
        return index, self._batches[place]

    def _planned(self, epoch: int) -> list[Parts]:
        generator = np.random.default_rng((self._seed, epoch))
        index_N = self._sorted(generator.random(len(self._length_NS)))
        part_EP = np.where(self._place_EP == NO_PART, NO_PART, index_N[self._place_EP])
        part_EP = part_EP[np.lexsort((generator.random(len(part_EP)), *self._total_ES.T))]
        order = generator.permutation(len(self._cuts))
        return [part_EP[self._cuts[number]] for number in order]

    def _sorted(self, tie_N: Float[np.ndarray, " example"]) -> Int[np.ndarray, " example"]:
        """By the length of the last side, then of the first; equals by `tie_N`."""
        return np.lexsort((tie_N, *self._length_NS.T))


def _joined(
    length_NS: Int[np.ndarray, "example side"], share: float, longest: int, seed: int
) -> tuple[Parts, Int[np.ndarray, "joined side"]]:
    """Which examples are joined to which, and how long they are together.

    Two that are joined lose the end of the first. Pairs that would be too long stay apart.
    """
    place_N = np.random.default_rng(seed).permutation(len(length_NS))
    num_pairs = int(share * len(length_NS) / 2)
    pair_EP = place_N[: 2 * num_pairs].reshape(-1, 2)
    total_ES = length_NS[pair_EP].sum(1) - 1
    fits_E = (total_ES <= longest).all(1)
    alone_N = np.concatenate([place_N[2 * num_pairs :], pair_EP[~fits_E].flatten()])
    if not num_pairs:
        return alone_N[:, None], length_NS[alone_N]
    alone_EP = np.stack([alone_N, np.full(len(alone_N), NO_PART)], 1)
    part_EP = np.concatenate([pair_EP[fits_E], alone_EP])
    return part_EP, np.concatenate([total_ES[fits_E], length_NS[alone_N]])


def cuts(length_N: Int[np.ndarray, " example"], max_tokens: int) -> list[slice]:
    """Where a row of examples is cut into batches of at most `max_tokens` padded tokens."""
    found, first, longest = [], 0, 0
    for index, length in enumerate(length_N.tolist()):
        longest = max(longest, length)
        if index > first and (index - first + 1) * longest > max_tokens:
            found.append(slice(first, index))
            first, longest = index, length
    return [*found, slice(first, len(length_N))]
