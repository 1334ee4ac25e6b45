"""How representations evolve, by loops over states in the papers' words."""

from collections.abc import Sequence
from math import log

import numpy as np


def mutual_information(tokens: Sequence[int], clusters: Sequence[int]) -> float:
    """The sum over pairs of p(t, c) ln p(t, c) / p(t) p(c), with shares for probabilities."""
    count = len(tokens)
    total = 0.0
    for token in set(tokens):
        for cluster in set(clusters):
            both = sum(t == token and c == cluster for t, c in zip(tokens, clusters, strict=True))
            if both:
                share = both / count
                of_token = sum(t == token for t in tokens) / count
                of_cluster = sum(c == cluster for c in clusters) / count
                total += share * log(share / (of_token * of_cluster))
    return total


def left_out(tokens: Sequence[int], clusters: Sequence[int]) -> float:
    """The entropy of the tokens, and the mean log probability of each in its cluster without it."""
    count, everything = len(tokens), list(zip(tokens, clusters, strict=True))
    share = {token: list(tokens).count(token) / count for token in tokens}
    entropy = -sum(each * log(each) for each in share.values())
    found = []
    for exponent in range(-7, 21):
        prior, total = 2.0**exponent, 0.0
        for number, (token, cluster) in enumerate(everything):
            others = everything[:number] + everything[number + 1 :]
            its = [other for other, where in others if where == cluster]
            total += log((its.count(token) + prior * share[token]) / (len(its) + prior))
        found.append(total / count)
    return entropy + max(found)


def miller_madow(tokens: Sequence[int], clusters: Sequence[int]) -> float:
    """Entropies of tokens, clusters and pairs, each raised by (values - 1) / 2n."""
    pairs = list(zip(tokens, clusters, strict=True))
    return _entropy(tokens) + _entropy(clusters) - _entropy(pairs)


def _entropy(values: Sequence[object]) -> float:
    count = len(values)
    shares = [sum(each == value for each in values) / count for value in set(values)]
    return -sum(share * log(share) for share in shares) + (len(shares) - 1) / (2 * count)


def pwcca(first: np.ndarray, second: np.ndarray) -> float:
    """Canonical correlations from square roots of covariances; each counts as it accounts for X."""
    x = first - first.mean(0)
    y = second - second.mean(0)
    to_x, to_y = _inverse_root(x.T @ x), _inverse_root(y.T @ y)
    left, correlations, _ = np.linalg.svd(to_x @ (x.T @ y) @ to_y)
    total = weighted = 0.0
    for number, correlation in enumerate(correlations):
        variate = x @ to_x @ left[:, number]
        weight = sum(abs(float(variate @ column)) for column in x.T)
        weighted += weight * float(correlation)
        total += weight
    return 1 - weighted / total


def _inverse_root(matrix: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return vectors @ np.diag(values**-0.5) @ vectors.T


def cka(first: np.ndarray, second: np.ndarray) -> float:
    """Correlation of the two sets' centred matrices of inner products between states."""
    grams = []
    for states in (first, second):
        gram = states @ states.T
        centre = np.eye(len(gram)) - 1 / len(gram)
        grams.append((centre @ gram @ centre).ravel())
    return float(grams[0] @ grams[1] / np.sqrt((grams[0] @ grams[0]) * (grams[1] @ grams[1])))


def nearest(states: np.ndarray, query: int, k: int) -> set[int]:
    """The k other states with the largest cosine."""
    cosines = {
        other: float(
            states[query]
            @ states[other]
            / (np.linalg.norm(states[query]) * np.linalg.norm(states[other]))
        )
        for other in range(len(states))
        if other != query
    }
    return set(sorted(cosines, key=lambda other: cosines[other])[-k:])
