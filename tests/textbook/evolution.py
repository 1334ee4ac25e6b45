"""How representations evolve, by loops over states in the papers' words."""

from collections.abc import Sequence
from math import log


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


def miller_madow(tokens: Sequence[int], clusters: Sequence[int]) -> float:
    """Entropies of tokens, clusters and pairs, each raised by (values - 1) / 2n."""
    pairs = list(zip(tokens, clusters, strict=True))
    return _entropy(tokens) + _entropy(clusters) - _entropy(pairs)


def _entropy(values: Sequence[object]) -> float:
    count = len(values)
    shares = [sum(each == value for each in values) / count for value in set(values)]
    return -sum(share * log(share) for share in shares) + (len(shares) - 1) / (2 * count)
