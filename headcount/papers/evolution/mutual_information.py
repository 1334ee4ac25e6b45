r"""Mutual information between tokens and states: what a layer knows of its input or its output.

$$I(T; C) = \sum_{t, c} p(t, c) \ln \frac{p(t, c)}{p(t)\, p(c)} \in [0, \ln |T|] \text{ nats}$$

States are continuous, so their clusters C (mini-batch k-means) stand in for them. The plug-in
estimate takes shares for probabilities and is too large: independent variables share information by
chance, and the more so the more even the clusters are. Three estimates correct it, each with a bias
of its own (`benchmarks/mutual_information.py`), so a difference is real only if all agree on it:

- `mi-miller-madow` subtracts the first-order bias (K_TC - K_T - K_C + 1) / 2n, with K the numbers
  of values that occur and n the number of states. It is too large while most pairs of a token and
  a cluster occur less than once;
- `mi-less-shuffled` subtracts the plug-in estimate after tokens are shuffled (`mi-shuffled`, the
  mean of five shuffles with Student's 95 % interval). It is right without information, and too
  small with much, whose bias is smaller than that of shuffled tokens;
- `mi-left-out` says how well the other states of its cluster predict a state's token, and is at
  most the true information: a cross-entropy is at least the entropy,

$$\mathrm{H}(T) + \frac{1}{n} \sum_s \ln
\frac{n_{t_s c_s} - 1 + \alpha p(t_s)}{n_{c_s} - 1 + \alpha}$$

  with the alpha out of 1/128, 1/64 ... 2^20 that makes it largest. The largest alphas predict the
  shares of all tokens, so that independent tokens have 0.

Reference: The Bottom-up Evolution of Representations in the Transformer (Voita et al., 2019),
section 4.1, https://arxiv.org/abs/1909.01380
Reference: Note on the bias of information estimates (Miller, 1955); On variational bounds of mutual
information (Poole et al., 2019), section 2.1, https://arxiv.org/abs/1905.06922, for the lower bound
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float32, Int
from scipy.stats import entropy
from sklearn.cluster import MiniBatchKMeans
from sklearn.metrics import mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from headcount.papers.evolution.record import Measurement, check_clusters
from headcount.statistics import mean_interval

STATES_A_CLUSTER = 100
"""Number of states for each cluster: the paper has 10,000 clusters of a million states."""

ESTIMATES = ("mi-miller-madow", "mi-less-shuffled", "mi-left-out")
"""The corrected estimates, which must agree on a difference."""

CLUSTERS = "mi-clusters"
"""Number of clusters that have states."""

SHUFFLES = 5
"""Number of shuffles of the control."""

ROUNDING = float(np.finfo(np.float16).eps)
"""How far two stored states are apart at most, as a share of their norm, if only rounding tells
them apart: one unit in the last place of float16, in every dimension."""

POSITION_EDGES = (0, 1, 2, 3, 5, 9)
"""First positions of the bins of positions."""

_PRIORS = 2.0 ** np.arange(-7, 21)
"""Weights of the tokens' shares in a prediction, in states of a cluster."""

_ROWS = 1000
"""Number of centers that are compared with all at a time."""

_LEAST = 200
"""Number of states that a bin of positions needs."""


def clusters_of(
    states_SD: Float32[np.ndarray, "state width"], num_clusters: int, seed: int
) -> Int[np.ndarray, " state"]:
    """The cluster of each state by mini-batch k-means.

    Where fewer states differ than there are clusters, several centers lie on one state, and the
    last bits of its copies decide which of them is nearest. So centers within rounding of each
    other are one cluster: those at most `ROUNDING` times the norm of the larger apart.

    Raises:
        CorpusError: if there are fewer states than clusters.
    """
    check_clusters(len(states_SD), num_clusters)
    means = MiniBatchKMeans(num_clusters, batch_size=max(1024, 2 * num_clusters), random_state=seed)
    cluster_S = means.fit_predict(states_SD)
    return _told_apart(np.asarray(means.cluster_centers_))[cluster_S]


def _told_apart(center_CD: Float32[np.ndarray, "cluster width"]) -> Int[np.ndarray, " cluster"]:
    """For each center the first one within rounding of it, which is within rounding of no earlier.

    Centers that are all compared with a first one can't form a chain from one state to another.
    """
    center_CD = center_CD.astype(np.float64)  # differences of squares need its digits
    square_C = (center_CD**2).sum(1)
    first_C = np.arange(len(center_CD))
    for start in range(0, len(center_CD), _ROWS):
        rows = slice(start, start + _ROWS)
        square_RC = square_C[rows, None] + square_C - 2 * center_CD[rows] @ center_CD.T
        is_near_RC = square_RC <= ROUNDING**2 * np.maximum(square_C[rows, None], square_C)
        for center, is_near_C in enumerate(is_near_RC, start):
            earlier = np.flatnonzero(is_near_C[:center])
            if len(leading := earlier[first_C[earlier] == earlier]):
                first_C[center] = leading[0]
    return first_C


def default_clusters(num_states: int) -> int:
    """The number of clusters for some states: one for every 100, as in the paper, and at least 2.

    >>> default_clusters(1_000_000)
    10000
    """
    return max(2, num_states // STATES_A_CLUSTER)


def plug_in(token_S: Int[np.ndarray, " state"], cluster_S: Int[np.ndarray, " state"]) -> float:
    """The plug-in estimate, in nats."""
    return float(mutual_info_score(token_S, cluster_S))


def miller_madow(token_S: Int[np.ndarray, " state"], cluster_S: Int[np.ndarray, " state"]) -> float:
    """The plug-in estimate less its first-order bias, in nats."""
    num_tokens, num_clusters = len(np.unique(token_S)), len(np.unique(cluster_S))
    num_pairs = len(np.unique(np.stack([token_S, cluster_S]), axis=1).T)
    bias = (num_pairs - num_tokens - num_clusters + 1) / (2 * len(token_S))
    return plug_in(token_S, cluster_S) - bias


def shuffled(
    token_S: Int[np.ndarray, " state"], cluster_S: Int[np.ndarray, " state"], seed: int
) -> list[float]:
    """The plug-in estimate of shuffled tokens, for every shuffle."""
    generator = np.random.default_rng(seed)
    return [plug_in(generator.permutation(token_S), cluster_S) for _ in range(SHUFFLES)]


def left_out(token_S: Int[np.ndarray, " state"], cluster_S: Int[np.ndarray, " state"]) -> float:
    """How well the other states of its cluster predict the token of a state, in nats."""
    token_S = np.unique(token_S, return_inverse=True)[1]
    count_TC = np.asarray(contingency_matrix(token_S, cluster_S))
    share_T = np.bincount(token_S) / len(token_S)
    token_P, cluster_P = np.nonzero(count_TC)
    pair_P, size_P = count_TC[token_P, cluster_P], count_TC.sum(0)[cluster_P]
    share_P = share_T[token_P]
    found = (
        pair_P @ np.log((pair_P - 1 + prior * share_P) / (size_P - 1 + prior)) for prior in _PRIORS
    )
    return float(max(found) / len(token_S) + entropy(share_T))


def information(
    token_S: Int[np.ndarray, " state"],
    cluster_S: Int[np.ndarray, " state"],
    against: str,
    seed: int,
) -> Iterator[Measurement]:
    """The plug-in estimate, the control, the corrected estimates, and the clusters with states."""
    plain, control = plug_in(token_S, cluster_S), shuffled(token_S, cluster_S, seed)
    low, chance, high = mean_interval(np.array(control)).tolist()
    corrected = (miller_madow(token_S, cluster_S), plain - chance, left_out(token_S, cluster_S))
    values = {"mi": plain, "mi-shuffled": chance, CLUSTERS: len(np.unique(cluster_S))}
    values |= dict(zip(ESTIMATES, corrected, strict=True))
    for quantity, value in values.items():
        ends = (low, high) if quantity == "mi-shuffled" else (np.nan, np.nan)
        yield Measurement(quantity, against, float(value), len(token_S), *ends)


def information_by_position(
    token_S: Int[np.ndarray, " state"],
    cluster_S: Int[np.ndarray, " state"],
    position_S: Int[np.ndarray, " state"],
    against: str,
    seed: int,
) -> Iterator[Measurement]:
    """The same for each bin of positions with enough states; clusters are those of all states."""
    for name, is_in_S in position_bins(position_S):
        if is_in_S.sum() >= _LEAST:
            where = f"{against} at {name}"
            yield from information(token_S[is_in_S], cluster_S[is_in_S], where, seed)


def position_bins(
    position_S: Int[np.ndarray, " state"],
) -> Iterator[tuple[str, Bool[np.ndarray, " state"]]]:
    """Names of the bins of positions, and which states are in each.

    >>> [(name, int(inside.sum())) for name, inside in position_bins(np.arange(12))]
    [('0', 1), ('1', 1), ('2', 1), ('3-4', 2), ('5-8', 4), ('9+', 3)]
    """
    ends = (*POSITION_EDGES[1:], None)
    for first, end in zip(POSITION_EDGES, ends, strict=True):
        if end is None:
            yield f"{first}+", position_S >= first
        else:
            name = f"{first}" if end == first + 1 else f"{first}-{end - 1}"
            yield name, (position_S >= first) & (position_S < end)
