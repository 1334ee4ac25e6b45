"""Batches by length: examples of like length together, up to a budget of padded tokens.

Every epoch sorts all examples by length, equals in a new order, cuts the sorted row into batches
and shuffles the batches: of thousands of sentences the batches are new in every epoch, of a few
hundred mostly their order is. Where the cuts fall depends on the lengths alone, so all epochs have
the same number of batches, and batch i of the whole training is found without running those before
it: a resumed training goes on with the batch that it stopped before.

Examples can be concatenated in pairs, new ones in every epoch. Epochs then have not quite equally
many batches; of all epochs as many are taken as the shortest has.

Reference: Sentence Concatenation Approach to Data Augmentation for Neural Machine Translation
(Kondo et al., 2021), section 3, https://arxiv.org/abs/2104.08478
Departure: pairs take the place of their two examples, and no symbol stands between these.
"""

from typing import final

import numpy as np
from jaxtyping import Int
from torch.utils.data import Dataset

from headcount.errors import InputError

NO_PART = -1
"""In place of the second part of an example that stands alone."""

Parts = Int[np.ndarray, "row part"]
"""Numbers of the examples that are one, or two that are concatenated."""

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
        concatenated: share of the examples that come in pairs, as far as `longest` allows.
        longest: tokens of a side that a pair may have.

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
        concatenated: float = 0.0,
        longest: int = 256,
    ) -> None:
        self._length_NS, self._epochs, self._seed = length_NS, epochs, seed
        self._max_tokens, self._concatenated, self._longest = max_tokens, concatenated, longest
        planned = range(epochs if concatenated else min(epochs, 1))
        num_batches = min(len(self._planned(epoch)) for epoch in planned)
        self.per_epoch = num_batches // multiple * multiple
        if not self.per_epoch:
            raise InputError(
                f"expected at least {multiple} batches, one for each process and accumulated "
                f"gradient; the data makes {num_batches}: set batch_tokens lower than "
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
        order_N = generator.permutation(len(self._length_NS))
        part_EP, length_ES = paired(self._length_NS, order_N, self._concatenated, self._longest)
        order_E = np.lexsort((generator.random(len(part_EP)), *length_ES.T))
        found = cuts(length_ES[order_E].max(1), self._max_tokens)
        return [part_EP[order_E[found[number]]] for number in generator.permutation(len(found))]


def paired(
    length_NS: Int[np.ndarray, "example side"],
    order_N: Int[np.ndarray, " example"],
    share: float,
    longest: int,
) -> tuple[Parts, Int[np.ndarray, "row side"]]:
    """The first of a row of examples in pairs, the others alone; and how long they are.

    A pair has no end in its middle. Pairs that would be too long stay apart.
    """
    num_pairs = int(share * len(order_N) / 2)
    if not num_pairs:
        return order_N[:, None], length_NS[order_N]
    pair_EP = order_N[: 2 * num_pairs].reshape(-1, 2)
    length_ES = length_NS[pair_EP].sum(1) - 1
    fits_E = (length_ES <= longest).all(1)
    alone_N = np.concatenate([order_N[2 * num_pairs :], pair_EP[~fits_E].flatten()])
    alone_EP = np.stack([alone_N, np.full(len(alone_N), NO_PART)], 1)
    return (
        np.concatenate([pair_EP[fits_E], alone_EP]),
        np.concatenate([length_ES[fits_E], length_NS[alone_N]]),
    )


def cuts(length_N: Int[np.ndarray, " example"], max_tokens: int) -> list[slice]:
    """Where a row of examples is cut into batches of at most `max_tokens` padded tokens."""
    found, first, longest = [], 0, 0
    for index, length in enumerate(length_N.tolist()):
        longest = max(longest, length)
        if index > first and (index - first + 1) * longest > max_tokens:
            found.append(slice(first, index))
            first, longest = index, length
    return [*found, slice(first, len(length_N))]
