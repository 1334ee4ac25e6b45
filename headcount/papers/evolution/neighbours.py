r"""Neighbours: what the states nearest to a state have in common with it.

For a state q and its k nearest states N(q) by cosine, in the pool of all others,

$$\mathrm{share}(q) = \frac{1}{k} \sum_{n \in N(q)} [\, a(n) = a(q) \,] \in [0, 1]$$

where a is the token, the token to its left or right, or the tag; and the mean of |position(n) -
position(q)|, in tokens. The control is the same over the entire pool: what any neighbours would
give. The search is exact, in blocks of queries.

Reference: The Bottom-up Evolution of Representations in the Transformer (Voita et al., 2019),
section 6, https://arxiv.org/abs/1909.01380
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float32, Float64, Int64

from headcount.core import CorpusError, amount
from headcount.papers.evolution.record import EvolutionOptions, Measurement
from headcount.papers.evolution.tokens import NONE, Occurrences, StateStore

BLOCK = 256
"""Number of queries at a time."""


def nearest(
    states_SD: Float32[np.ndarray, "state width"],
    queries_Q: Int64[np.ndarray, " query"],
    k: int,
) -> Int64[np.ndarray, "query k"]:
    """The k states nearest to each query by cosine, without itself, in no particular order."""
    norm_S1 = np.linalg.norm(states_SD, axis=1, keepdims=True)
    unit_SD = states_SD / np.maximum(norm_S1, np.finfo(np.float32).tiny)
    found = []
    for start in range(0, len(queries_Q), BLOCK):
        block_B = queries_Q[start : start + BLOCK]
        cosine_BS = unit_SD[block_B] @ unit_SD.T
        cosine_BS[np.arange(len(block_B)), block_B] = -np.inf
        found.append(np.argpartition(-cosine_BS, k - 1, axis=1)[:, :k])
    return np.concatenate(found)


def neighbour_rows(
    store: StateStore, options: EvolutionOptions, layer: int
) -> Iterator[Measurement]:
    """Shares and distances in one layer with their controls.

    Raises:
        CorpusError: if there are not more states than neighbours.
    """
    chosen, generator = store.occurrences, np.random.default_rng(options.seed)
    size = min(options.pool, len(chosen))
    if size <= options.nearest:
        raise CorpusError(
            f"Expected more than {amount(options.nearest, 'state')} to search the nearest among, "
            f"got {size}. Give a larger corpus, or lower --nearest."
        )
    pool_P = np.sort(generator.choice(len(chosen), size, replace=False))
    queries_Q = np.sort(generator.choice(size, min(options.queries, size), replace=False))
    nearest_QK = nearest(store.layer(layer, pool_P), queries_Q, options.nearest)
    for against, values_S in attributes(chosen).items():
        values_P = values_S[pool_P]
        known_Q = values_P[queries_Q] != NONE
        if not known_Q.any():
            continue
        asked_Q, near_QK = queries_Q[known_Q], nearest_QK[known_Q]
        same_Q = (values_P[near_QK] == values_P[asked_Q][:, None]).mean(1)
        chance_Q = _chance(values_P, asked_Q)
        yield _mean("neighbours", against, same_Q)
        yield _mean("neighbours-chance", against, chance_Q)
    position_P = chosen.position_S[pool_P]
    away_Q = np.abs(position_P[nearest_QK] - position_P[queries_Q][:, None]).mean(1)
    yield _mean("neighbours", "position", away_Q)
    yield _mean("neighbours-chance", "position", _mean_distance(position_P, queries_Q))


def attributes(chosen: Occurrences) -> dict[str, Int64[np.ndarray, " state"]]:
    """What neighbours may have in common, by name."""
    return {
        "token": chosen.token_S,
        "left": chosen.left_S,
        "right": chosen.right_S,
        "tag": chosen.tag_S,
    }


def _chance(
    values_P: Int64[np.ndarray, " pool"], queries_Q: Int64[np.ndarray, " query"]
) -> Float64[np.ndarray, " query"]:
    """Share of all other states with the value of each query."""
    _, place_P, count_V = np.unique(values_P, return_inverse=True, return_counts=True)
    return (count_V[place_P[queries_Q]] - 1) / (len(values_P) - 1)


def _mean_distance(
    position_P: Int64[np.ndarray, " pool"], queries_Q: Int64[np.ndarray, " query"]
) -> Float64[np.ndarray, " query"]:
    """Mean distance in position of each query from all other states."""
    count_N = np.bincount(position_P)
    away_NN = np.abs(np.arange(len(count_N))[:, None] - np.arange(len(count_N)))
    return (away_NN @ count_N)[position_P[queries_Q]] / (len(position_P) - 1)


def _mean(quantity: str, against: str, value_Q: Float64[np.ndarray, " query"]) -> Measurement:
    """The mean over queries with its 95 % interval (1.96 standard errors)."""
    mean = float(value_Q.mean())
    half = 1.96 * float(value_Q.std()) / len(value_Q) ** 0.5
    return Measurement(quantity, against, mean, len(value_Q), mean - half, mean + half)
