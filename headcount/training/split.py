"""Split: held-out pairs that share no side with the training pairs.

Collections of sentences have many translations of one sentence, so lines drawn at random leak.
"""

import random
from collections.abc import Sequence

from headcount.errors import InputError

Pair = tuple[str, str]


def hold_out(
    pairs: Sequence[Pair], sizes: Sequence[int], seed: int = 0
) -> tuple[list[Pair], list[list[Pair]]]:
    """Draw held-out sets.

    No two drawn pairs share a side, and what is left shares no side with any of them; sides are
    the same if they are after lower-casing and squeezing whitespace.

    Args:
        pairs: all pairs.
        sizes: of the held-out sets.
        seed: of the draw.

    Returns:
        The pairs left for training, in their order; and the sets.

    Raises:
        InputError: if there are not so many pairs with sides of their own, or none would be left.
    """
    keys = [tuple(" ".join(side.lower().split()) for side in pair) for pair in pairs]
    order = random.Random(seed).sample(range(len(pairs)), len(pairs))
    taken: tuple[set[str], set[str]] = (set(), set())
    drawn: list[int] = []
    for index in order:
        if len(drawn) == sum(sizes):
            break
        if not any(key in seen for key, seen in zip(keys[index], taken, strict=True)):
            drawn.append(index)
            for key, seen in zip(keys[index], taken, strict=True):
                seen.add(key)
    left = [
        pair
        for pair, key in zip(pairs, keys, strict=True)
        if key[0] not in taken[0] and key[1] not in taken[1]
    ]
    if len(drawn) < sum(sizes) or not left:
        raise InputError(
            f"{sum(sizes)} pairs to hold out were asked for; of {len(pairs)} pairs {len(drawn)} "
            f"have sides of their own, which leaves {len(left)} for training: hold out fewer"
        )
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    sets = [drawn[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    return left, [[pairs[index] for index in chosen] for chosen in sets]
