"""Probes of attention and hidden states, by definition.

References: Clark et al. 2019, sections 4.1 and 5, https://arxiv.org/abs/1906.04341
Hewitt and Manning 2019, sections 2 and 3, https://aclanthology.org/N19-1419/
"""

from itertools import product

import numpy as np


def groups_of(word_of: list[int]) -> list[list[int]]:
    """Tokens of every word, then the special ones before the first word, then those after it."""
    num_words = max(word_of) + 1
    first = word_of.index(0)
    words = [[n for n, word in enumerate(word_of) if word == w] for w in range(num_words)]
    before = [n for n, word in enumerate(word_of) if word < 0 and n < first]
    after = [n for n, word in enumerate(word_of) if word < 0 and n > first]
    return [*words, before, after]


def word_map(A: np.ndarray, word_of: list[int]) -> np.ndarray:
    """Attention between words and specials, [query, key, head], from that between pieces.

    Attention to a word is the sum over its pieces; attention from a word is the mean.
    """
    groups = groups_of(word_of)
    found = np.zeros((len(groups), len(groups), A.shape[0]))
    for head in range(A.shape[0]):
        for row, queries in enumerate(groups):
            for column, keys in enumerate(groups):
                total = sum(float(A[head, q, k]) for q in queries for k in keys)
                found[row, column, head] = total / len(queries) if queries else 0.0
    return found


def word_states(states: np.ndarray, word_of: list[int]) -> np.ndarray:
    """The mean over pieces of one hidden state of every word."""
    return np.array([states[pieces].mean(0) for pieces in groups_of(word_of)[:-2]])


def head_score(
    A: np.ndarray,
    dependent: int,
    candidate: int,
    w: np.ndarray,
    u: np.ndarray,
) -> float:
    """sum_k w_k A_dc^k + u_k A_cd^k, with one weight a head or weights of this very pair."""
    score = 0.0
    for k in range(A.shape[-1]):
        score += w[k] * A[dependent, candidate, k] + u[k] * A[candidate, dependent, k]
    return score


def root_score(A: np.ndarray, dependent: int, weights: np.ndarray, constant: float) -> float:
    """Weights times the attention to the specials before and after, then from them."""
    before, after = len(A) - 2, len(A) - 1
    score = constant
    for k in range(A.shape[-1]):
        score += weights[0, k] * A[dependent, before, k] + weights[1, k] * A[dependent, after, k]
        score += weights[2, k] * A[before, dependent, k] + weights[3, k] * A[after, dependent, k]
    return score


def best_tree(scores: np.ndarray) -> list[int]:
    """Of all trees with one child of the root, the one with the largest sum of scores."""
    num_words, best, found = len(scores), -np.inf, []
    for heads in product(range(num_words + 1), repeat=num_words):
        if heads.count(num_words) != 1 or any(word == head for word, head in enumerate(heads)):
            continue
        if not all(_reaches_root(word, heads) for word in range(num_words)):
            continue
        total = sum(scores[word, head] for word, head in enumerate(heads))
        if total > best:
            best, found = total, list(heads)
    return found


def _reaches_root(word: int, heads: tuple[int, ...]) -> bool:
    for _ in heads:
        if heads[word] == len(heads):
            return True
        word = heads[word]
    return False


def tree_distances(heads: list[int]) -> np.ndarray:
    """Number of arcs between every two words; the root's head is the number of words."""
    num_words = len(heads)

    def path(word: int) -> list[int]:
        found = [word]
        while heads[word] != num_words:
            word = heads[word]
            found.append(word)
        return found

    distances = np.zeros((num_words, num_words))
    for i in range(num_words):
        for j in range(num_words):
            up, down = path(i), path(j)
            distances[i, j] = min(up.index(word) + down.index(word) for word in up if word in down)
    return distances


def tree_depths(heads: list[int]) -> list[int]:
    """Number of arcs between every word and the root of the sentence."""
    root = heads.index(len(heads))
    return [int(each) for each in tree_distances(heads)[root]]


def squared_distance(B: np.ndarray, h_i: np.ndarray, h_j: np.ndarray) -> float:
    """(B(h_i - h_j))^T (B(h_i - h_j))."""
    projected = B @ (h_i - h_j)
    return float(sum(x * x for x in projected))


def spanning_tree(distances: np.ndarray, words: list[int]) -> set[frozenset[int]]:
    """Prim's minimum spanning tree over some words."""
    reached, edges = {words[0]}, set[frozenset[int]]()
    while len(reached) < len(words):
        i, j = min(
            ((i, j) for i in reached for j in words if j not in reached),
            key=lambda pair: distances[pair],
        )
        reached.add(j)
        edges.add(frozenset((i, j)))
    return edges
