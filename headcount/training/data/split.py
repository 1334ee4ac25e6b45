"""Split: held-out rows that share no side with the training rows.

Sentence collections contain many translations of one sentence, so randomly drawn lines leak.
"""

import random
from collections.abc import Sequence
from dataclasses import replace

from headcount.core import InputError
from headcount.training.data.rows import Row, Rows


def hold_out(rows: Rows, sizes: Sequence[int], seed: int = 0) -> tuple[Rows, list[Rows]]:
    """Draw held-out sets.

    No two drawn rows share a side, and the rows left share no side with any of them. Sides count as
    the same if they are equal after lower-casing.

    Args:
        rows: all rows.
        sizes: sizes of the held-out sets.
        seed: seed of the draw.

    Returns:
        The rows left for training, in their order, with the number of rows removed because they
        share a side with a held-out row; and the held-out sets.

    Raises:
        InputError: if too few rows share no side with each other, or none would be left.
    """
    keys = [tuple(side.lower() for side in row) for row in rows.rows]
    drawn = _drawn(keys, sum(sizes), seed)
    taken = [{keys[index][side] for index in drawn} for side in range(len(rows.sides))]
    left = [row for row, key in zip(rows.rows, keys, strict=True) if not _shares(key, taken)]
    if len(drawn) < sum(sizes) or not left:
        raise InputError(
            f"Expected {sum(sizes)} rows to hold out that share no side, got {len(drawn)} of "
            f"{len(keys)} rows, which leaves {len(left)} for training. Hold out fewer."
        )
    sets, first = [], 0
    for size in sizes:
        chosen = drawn[first : first + size]
        sets.append(replace(rows, rows=[rows.rows[index] for index in chosen], num_empty=0))
        first += size
    num_shared = len(rows.rows) - len(left) - len(drawn)
    return replace(rows, rows=left, num_shared=num_shared), sets


def _drawn(keys: list[Row], count: int, seed: int) -> list[int]:
    """Indices of up to `count` randomly drawn rows that share no side."""
    taken: list[set[str]] = [set() for _ in keys[0]]
    drawn: list[int] = []
    for index in random.Random(seed).sample(range(len(keys)), len(keys)):
        if len(drawn) == count:
            break
        if not _shares(keys[index], taken):
            drawn.append(index)
            for key, seen in zip(keys[index], taken, strict=True):
                seen.add(key)
    return drawn


def _shares(key: Row, taken: Sequence[set[str]]) -> bool:
    return any(side in seen for side, seen in zip(key, taken, strict=True))
