"""Localization and picture retrieval by definition, from a stock model's own weights.

References: Kang et al. 2025, section 4, https://arxiv.org/abs/2503.06287; Li et al. 2026, sections
3.2 and 3.3, https://arxiv.org/abs/2605.27243
"""

import math
from collections.abc import Sequence

import numpy as np


def spatial_entropy(map_2d: Sequence[Sequence[float]]) -> float:
    """Entropy of the sizes of connected components (8 neighbours) of what is above the mean."""
    height, width = len(map_2d), len(map_2d[0])
    mean = sum(sum(row) for row in map_2d) / (height * width)
    left = {(r, c) for r in range(height) for c in range(width) if map_2d[r][c] > mean}
    total, sizes = len(left), []
    while left:
        found, size = [left.pop()], 0
        while found:
            row, column = found.pop()
            size += 1
            for down in (-1, 0, 1):
                for right in (-1, 0, 1):
                    other = (row + down, column + right)
                    if other in left:
                        left.remove(other)
                        found.append(other)
        sizes.append(size)
    if not sizes:
        return math.inf
    return -sum(size / total * math.log(size / total) for size in sizes)


def threshold(sums: Sequence[float]) -> float:
    """The sum at which the sorted sums lie furthest below the line from first to last."""
    values, best, found = sorted(sums), -1.0, 0.0
    for place, value in enumerate(values):
        line = values[0] + (values[-1] - values[0]) * place / (len(values) - 1)
        if line - value > best:
            best, found = line - value, value
    return found


def selection_frequency(
    maps: Sequence[Sequence[Sequence[Sequence[float]]]], number: int
) -> list[float]:
    """How often each head is among the lowest entropies of the heads that look at pictures.

    Args:
        maps: for each prompt and head, the map of the last token over the picture.
        number: how many heads are chosen in a prompt; no two entropies of a prompt are equal.
    """
    heads = range(len(maps[0]))
    sums = [sum(sum(map(sum, of_prompt[head])) for of_prompt in maps) / len(maps) for head in heads]
    passing = [head for head in heads if sums[head] >= threshold(sums)]
    times = [0] * len(heads)
    for of_prompt in maps:
        ranked = sorted((spatial_entropy(of_prompt[head]), head) for head in passing)
        for _, head in ranked[:number]:
            times[head] += 1
    return [each / len(maps) for each in times]


def attention_mass(A: np.ndarray, asked: Sequence[int], evidence: Sequence[int]) -> list[float]:
    """For each head, the mean over tokens of a question of the weight on all evidence tokens."""
    found = []
    for head in A:
        mass = 0.0
        for query in asked:
            for key in evidence:
                mass += float(head[query, key])
        found.append(mass / len(asked))
    return found
