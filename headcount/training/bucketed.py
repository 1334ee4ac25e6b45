"""Batches by length: examples of similar length together, up to a budget of padded tokens.

Every epoch shuffles all examples, divides them into pools of about a hundred batches each, sorts
each pool by length, cuts it into batches and shuffles all batches. So the examples of a batch are
similar in the length of their longer side (not of both), and meet other examples in every epoch.
Batch i of a training can be found without running those before it, so a training resumes with the
batch at which it stopped.

All epochs have as many batches as the first. An epoch with more batches drops some; an epoch with
fewer repeats some.

Examples can be concatenated in pairs, which change in every epoch.

Reference: Sentence Concatenation Approach to Data Augmentation for Neural Machine Translation
(Kondo et al., 2021), section 3, https://arxiv.org/abs/2104.08478
Departure: pairs replace their two examples, with no separator symbol between them.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Int
from torch.utils.data import Dataset

from headcount.core import InputError, amount

NO_PART = -1
"""Stands in for the second part of an example that is not in a pair."""

POOL = 100
"""Approximate number of batches in a pool of examples."""

Parts = Int[np.ndarray, "row part"]
"""Indices of the one example, or two concatenated examples, in each row."""

Numbered = tuple[int, Parts]
"""A batch's number in the training, and its examples."""


@final
@dataclass(frozen=True)
class Pairing:
    """How many examples are concatenated in pairs; none by default."""

    share: float = 0.0
    """Share of the examples to concatenate, as far as `longest` allows."""
    longest: int = 256
    """Largest number of tokens on a side of a pair."""


ALONE = Pairing()
"""No pairs."""


@final
class Batches(Dataset):
    """All batches of all epochs.

    Args:
        length_NS: number of tokens on each side of every example.
        max_tokens: the largest number of examples in a batch times its longest side; a longer
            example is a batch of its own.
        epochs: number of passes over the examples.
        seed: seed of the order.
        multiple: the number of batches in an epoch is rounded down to a multiple of this, so that
            all steps of all processes get equally many; the batches left out vary by epoch.
        pairing: which examples are concatenated in pairs.

    Raises:
        InputError: if there are fewer batches than `multiple`.
    """

    def __init__(
        self,
        length_NS: Int[np.ndarray, "example side"],
        max_tokens: int,
        epochs: int,
        *,
        seed: int,
        multiple: int = 1,
        pairing: Pairing = ALONE,
    ) -> None:
        self._length_NS, self._epochs, self._seed = length_NS, epochs, seed
        self._max_tokens, self._pairing = max_tokens, pairing
        self._epoch, self._batches = 0, self._planned(0)
        num_batches = len(self._batches)
        self.per_epoch = num_batches // multiple * multiple
        if not self.per_epoch:
            remedy = (
                "Start fewer processes, or lower accumulate."
                if len(length_NS) < multiple
                else f"Set batch_tokens lower than {max_tokens}."
            )
            raise InputError(
                f"Expected at least {amount(multiple, 'batch')}, one for each process and "
                f"accumulated gradient, got {num_batches} from the data. {remedy}"
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
        part_EP, length_ES = paired(self._length_NS, order_N, self._pairing)
        order_E = _sorted_in_pools(length_ES.max(1), self._max_tokens, generator)
        found = cuts(length_ES[order_E].max(1), self._max_tokens)
        return [part_EP[order_E[found[number]]] for number in generator.permutation(len(found))]


def _sorted_in_pools(
    length_E: Int[np.ndarray, " row"], max_tokens: int, generator: np.random.Generator
) -> Int[np.ndarray, " row"]:
    """Row order: random pools, sorted by length, alternately ascending and descending.

    So the batch at the border of two pools has similar lengths too.
    """
    size = max(1, int(POOL * max_tokens / length_E.mean()))
    pool_E = generator.permutation(len(length_E)) // size
    return np.lexsort((np.where(pool_E % 2, -length_E, length_E), pool_E))


def paired(
    length_NS: Int[np.ndarray, "example side"],
    order_N: Int[np.ndarray, " example"],
    pairing: Pairing,
) -> tuple[Parts, Int[np.ndarray, "row side"]]:
    """Rows with the first share of the examples in pairs and the others alone, and their lengths.

    A pair has no end symbol in its middle. Pairs that would be too long are not formed.
    """
    num_pairs = int(pairing.share * len(order_N) / 2)
    if not num_pairs:
        return order_N[:, None], length_NS[order_N]
    pair_EP = order_N[: 2 * num_pairs].reshape(-1, 2)
    length_ES = length_NS[pair_EP].sum(1) - 1
    fits_E = (length_ES <= pairing.longest).all(1)
    alone_N = np.concatenate([order_N[2 * num_pairs :], pair_EP[~fits_E].flatten()])
    alone_EP = np.stack([alone_N, np.full(len(alone_N), NO_PART)], 1)
    return (
        np.concatenate([pair_EP[fits_E], alone_EP]),
        np.concatenate([length_ES[fits_E], length_NS[alone_N]]),
    )


def cuts(length_N: Int[np.ndarray, " example"], max_tokens: int) -> list[slice]:
    """Slices that cut a sequence of examples into batches of at most `max_tokens` padded tokens."""
    found, first, longest = [], 0, 0
    for index, length in enumerate(length_N.tolist()):
        longest = max(longest, length)
        if index > first and (index - first + 1) * longest > max_tokens:
            found.append(slice(first, index))
            first, longest = index, length
    return [*found, slice(first, len(length_N))]
