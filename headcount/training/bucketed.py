"""Batches by length: examples of like length together, up to a budget of padded tokens.

Every epoch puts all examples in a new order, cuts it into pools of as many examples as a hundred
batches take, sorts each pool by length, cuts it into batches and shuffles all of them. So the
examples of a batch are alike in the length of their longer side, not in that of both, and come
together with others in every epoch. Of a training batch i is found without running those before it:
a resumed training goes on with the batch that it stopped before.

All epochs have as many batches as the first: one with a few more loses some, one with fewer has
some twice.

Examples can be concatenated in pairs, new ones in every epoch.

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

POOL = 100
"""Batches that a pool of examples makes, about."""

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
        self._epoch, self._batches = 0, self._planned(0)
        num_batches = len(self._batches)
        self.per_epoch = num_batches // multiple * multiple
        if not self.per_epoch:
            remedy = (
                "start fewer processes, or set accumulate lower"
                if len(length_NS) < multiple
                else f"set batch_tokens lower than {max_tokens}"
            )
            raise InputError(
                f"expected at least {multiple} batches, one for each process and accumulated "
                f"gradient; the data makes {num_batches}: {remedy}"
            )

    def __len__(self) -> int:
        return self.per_epoch * self._epochs

    def __getitem__(self, index: int) -> Numbered:
        epoch, place = divmod(index, self.per_epoch)
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, self._planned(epoch)
        return index, self._batches[place % len(self._batches)]

    def _planned(self, epoch: int) -> list[Parts]:
        generator = np.random.default_rng((self._seed, epoch))
        order_N = generator.permutation(len(self._length_NS))
        part_EP, length_ES = paired(self._length_NS, order_N, self._concatenated, self._longest)
        order_E = _sorted_in_pools(length_ES.max(1), self._max_tokens, generator)
        found = cuts(length_ES[order_E].max(1), self._max_tokens)
        return [part_EP[order_E[found[number]]] for number in generator.permutation(len(found))]


def _sorted_in_pools(
    length_E: Int[np.ndarray, " row"], max_tokens: int, generator: np.random.Generator
) -> Int[np.ndarray, " row"]:
    """An order of rows: pools drawn at random, each by length, up in one and down in the next.

    So the batch at the border of two pools is of like lengths too.
    """
    size = max(1, int(POOL * max_tokens / length_E.mean()))
    pool_E = generator.permutation(len(length_E)) // size
    return np.lexsort((np.where(pool_E % 2, -length_E, length_E), pool_E))


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
