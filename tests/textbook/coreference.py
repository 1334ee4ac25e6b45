"""Antecedent selection in the paper's words, one mention at a time."""

from collections.abc import Sequence

import numpy as np


def word_attention(
    weights: np.ndarray, word_of: Sequence[int], attending: int, attended: int
) -> float:
    """Attention from a word to a word: keys summed, queries averaged over pieces."""
    rows = [i for i, word in enumerate(word_of) if word == attending]
    total = 0.0
    for i in rows:
        for j, word in enumerate(word_of):
            if word == attended:
                total += weights[i, j] / len(rows)
    return total


def choice(weights: np.ndarray, word_of: Sequence[int], head: int, candidates: list[int]) -> int:
    """The candidate head word, of the mentions before, that a mention's head attends to most."""
    best, largest = candidates[0], -1.0
    for candidate in candidates:
        weight = word_attention(weights, word_of, head, candidate)
        if weight > largest + 1e-9:
            best, largest = candidate, weight
    return best
