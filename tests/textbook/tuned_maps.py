"""Attention maps before and after fine-tuning, by definition (Kovaleva et al. 2019)."""

import math
from collections.abc import Sequence

import numpy as np


def cosine(before: np.ndarray, after: np.ndarray) -> float:
    """Section 4.2: cosine of two maps [query, key], read as vectors."""
    dot = first = second = 0.0
    for query in range(before.shape[0]):
        for key in range(before.shape[1]):
            a, b = float(before[query, key]), float(after[query, key])
            dot, first, second = dot + a * b, first + a * a, second + b * b
    return dot / math.sqrt(first * second)


def attention_to(A: np.ndarray, is_of_class: Sequence[bool]) -> list[float]:
    """Section 4.3: for every head of [head, query, key], the sum of weights on words of a class."""
    heads, queries, keys = A.shape
    return [
        sum(float(A[h, q, k]) for q in range(queries) for k in range(keys) if is_of_class[k])
        for h in range(heads)
    ]


def kappa(a: Sequence[int], b: Sequence[int]) -> float:
    """Cohen's kappa of two labels of the same things."""
    agree = sum(x == y for x, y in zip(a, b, strict=True)) / len(a)
    chance = sum(
        (list(a).count(label) / len(a)) * (list(b).count(label) / len(b))
        for label in set(a) | set(b)
    )
    return (agree - chance) / (1 - chance)
