"""The norm of a head's output and its weight on the first token, by definition.

References: Sandoval-Segura et al. 2025, section 3, https://arxiv.org/abs/2504.03889 (mean norm of a
head's output, against its layer); Sok et al. 2026, https://arxiv.org/abs/2601.06787 (sink score).
"""

import math
from collections.abc import Sequence

import numpy as np


def output_norms(output: np.ndarray, W_O: np.ndarray) -> list[list[float]]:
    """Length of what each head adds to each query; output is [head, query, dim]."""
    heads, queries, dims = output.shape
    lengths = []
    for head in range(heads):
        lengths.append([])
        for query in range(queries):
            added = [0.0] * W_O.shape[2]
            for dim in range(dims):
                for out in range(len(added)):
                    added[out] += float(output[head, query, dim]) * float(W_O[head, dim, out])
            lengths[head].append(math.sqrt(sum(x * x for x in added)))
    return lengths


def layer_normalised(sentences: Sequence[list[list[float]]]) -> list[float]:
    """Mean over the queries of all sentences, divided by the mean of that over the heads."""
    means = []
    for head in range(len(sentences[0])):
        lengths = [length for sentence in sentences for length in sentence[head]]
        means.append(sum(lengths) / len(lengths))
    return [mean / (sum(means) / len(means)) for mean in means]


def sink_scores(sentences: Sequence[np.ndarray]) -> list[float]:
    """Minus the mean weight on the first key over all queries: A [head, query, key], no padding."""
    scores = []
    for head in range(sentences[0].shape[0]):
        weights = [float(A[head, query, 0]) for A in sentences for query in range(A.shape[1])]
        scores.append(-sum(weights) / len(weights))
    return scores
