"""What every token adds to the output of an attention block, by definition, token by token.

Kobayashi et al. 2020, section 2, and 2021, sections 2 and 3: attention, the residual connection
and layer normalisation, decomposed into a sum over the tokens.
"""

import math

import numpy as np

Vector = np.ndarray


def length(vector: Vector) -> float:
    """The Euclidean norm."""
    return math.sqrt(sum(float(x) ** 2 for x in vector))


def f(v: np.ndarray, W_O: np.ndarray, head: int, key: int) -> Vector:
    """f_h(x_j): the value vector through the head's rows of W_O."""
    out = np.zeros(W_O.shape[2])
    for dim in range(v.shape[2]):
        out = out + v[head, key, dim] * W_O[head, dim]
    return out


def added(A: np.ndarray, v: np.ndarray, W_O: np.ndarray, query: int, key: int) -> Vector:
    """F_ij: what the key adds to attention's output for the query, over all heads."""
    return sum(
        (A[head, query, key] * f(v, W_O, head, key) for head in range(len(A))),
        start=np.zeros(W_O.shape[2]),
    )


def normalised(z: Vector, total: Vector, gain: Vector, eps: float) -> Vector:
    """The part of LayerNorm's output that a part z of its input makes, without the bias."""
    mean = float(total.sum()) / len(total)
    variance = sum((float(x) - mean) ** 2 for x in total) / len(total)
    return (z - z.mean()) / math.sqrt(variance + eps) * gain


def mixing(
    A: np.ndarray,
    v: np.ndarray,
    W_O: np.ndarray,
    query: int,
    x: Vector | None = None,
    norm: tuple[Vector, Vector, float] | None = None,
) -> float:
    """Ratio of the context for one query; with x the residual, with (bias, gain, eps) LayerNorm."""
    parts = [added(A, v, W_O, query, key) for key in range(A.shape[2])]
    if x is not None:
        parts[query] = parts[query] + x
    if norm is not None:
        bias, gain, eps = norm
        total = sum(parts, start=bias)
        parts = [normalised(part, total, gain, eps) for part in parts]
    context = sum((part for key, part in enumerate(parts) if key != query), start=0 * parts[0])
    return length(context) / (length(context) + length(parts[query]))


def mixing_of_weights(A: np.ndarray, query: int, with_residual: bool) -> float:
    """Ratio of the context by the mean weights of heads, with half of the identity added or not."""
    heads, _, keys = A.shape
    mean = [sum(float(A[h, query, j]) for h in range(heads)) / heads for j in range(keys)]
    if with_residual:
        mean = [each / 2 + (0.5 if key == query else 0) for key, each in enumerate(mean)]
    context = sum(each for key, each in enumerate(mean) if key != query)
    return context / (context + mean[query])
