"""Linear probes of attention and of hidden states in the papers' words, one case at a time.

References: Coenen et al. 2019, section 3, https://arxiv.org/abs/1906.02715
Tenney et al. 2019, section 3, https://arxiv.org/abs/1905.05950
"""

import math
from collections.abc import Sequence

import numpy as np


def attention_vector(A: np.ndarray, i: int, j: int) -> list[float]:
    """The model-wide attention vector of an ordered pair: A_ij of all heads, then A_ji."""
    num_heads = A.shape[2]
    return [float(A[i, j, k]) for k in range(num_heads)] + [
        float(A[j, i, k]) for k in range(num_heads)
    ]


def standardized(x: Sequence[float], training: np.ndarray) -> list[float]:
    """Each feature less its mean, over its standard deviation, in the training cases."""
    found = []
    for feature, value in enumerate(x):
        column = [float(row[feature]) for row in training]
        mean = sum(column) / len(column)
        variance = sum((each - mean) ** 2 for each in column) / (len(column) - 1)
        found.append((value - mean) / max(math.sqrt(variance), 1e-6))
    return found


def scores(x: Sequence[float], W: np.ndarray, b: np.ndarray) -> list[float]:
    """The score of every class: b_c + sum_f x_f W_fc."""
    found = []
    for c in range(len(b)):
        found.append(float(b[c]) + sum(value * float(W[f, c]) for f, value in enumerate(x)))
    return found


def objective(
    xs: np.ndarray, classes: Sequence[int], W: np.ndarray, b: np.ndarray, penalty: float
) -> float:
    """Mean of -log p(class), by a softmax of the scores, plus the L2 penalty of the weights."""
    total = 0.0
    for x, right in zip(xs, classes, strict=True):
        each = scores(list(x), W, b)
        total += math.log(sum(math.exp(score) for score in each)) - each[right]
    return total / len(classes) + penalty * float((W**2).sum())


def shares(a: Sequence[float]) -> list[float]:
    """The weights of the scalar mix: softmax(a)."""
    total = sum(math.exp(each) for each in a)
    return [math.exp(each) / total for each in a]


def mixed(states: Sequence[np.ndarray], a: Sequence[float], gamma: float) -> np.ndarray:
    """The scalar mix of a word's hidden states: gamma sum_l s_l h_l."""
    found = np.zeros(len(states[0]))
    for share, state in zip(shares(a), states, strict=True):
        found += gamma * share * state
    return found


def centre_of_gravity(a: Sequence[float]) -> float:
    """The mean number of a layer by the weights of the mix: sum_l l s_l."""
    return sum(layer * share for layer, share in enumerate(shares(a)))
