"""Jensen-Shannon divergence between two heads in the paper's words, one token at a time."""

import math

import numpy as np


def smoothed(weights: np.ndarray) -> list[float]:
    """Mix: p' = 0.999 p + 0.001 / n, over the n tokens that can be attended to."""
    return [0.999 * float(p) + 0.001 / len(weights) for p in weights]


def entropy(p: list[float]) -> float:
    """Entropy in nats."""
    return -sum(each * math.log(each) for each in p)


def divergence(first: np.ndarray, second: np.ndarray) -> float:
    """Mean over the tokens of a text of the divergence between two maps [query, key]."""
    total = 0.0
    for row, other in zip(first, second, strict=True):
        p, q = smoothed(row), smoothed(other)
        mean = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
        total += entropy(mean) - (entropy(p) + entropy(q)) / 2
    return total / len(first)


def permutation_p(layers: list[int], distances: np.ndarray, orders: list[list[int]]) -> float:
    """Share of orders of the heads, the true one included, with as large a difference."""

    def difference(of: list[int]) -> float:
        same, other = [], []
        for a in range(len(of)):
            for b in range(a):
                (same if of[a] == of[b] else other).append(distances[a, b])
        return sum(other) / len(other) - sum(same) / len(same)

    true = difference(layers)
    drawn = [difference([layers[index] for index in order]) for order in orders]
    return (1 + sum(each >= true - 1e-12 for each in drawn)) / (1 + len(drawn))
