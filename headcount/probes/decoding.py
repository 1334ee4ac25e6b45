"""From scores of candidate heads to predicted heads: the best candidate, or the best tree.

The tree is the maximum spanning arborescence with one child of the root, found by networkx
(Chu and Liu, 1965; Edmonds, 1967). Where the best candidates are such a tree, they are the answer.
"""

import networkx as nx
import numpy as np
from jaxtyping import Float, Int64


def best_heads(scores_WC: Float[np.ndarray, "dependent candidate"]) -> Int64[np.ndarray, " word"]:
    """The candidate with the largest score of each word; the number of words is the root."""
    return scores_WC.argmax(1)


def best_tree(scores_WC: Float[np.ndarray, "dependent candidate"]) -> Int64[np.ndarray, " word"]:
    """The heads of the tree with the largest sum of scores and one child of the root."""
    heads_W = best_heads(scores_WC)
    if is_tree(heads_W):
        return heads_W
    num_words = len(scores_WC)
    scores_WC = scores_WC.astype(np.float64)
    is_candidate_WC = scores_WC > -1e8
    finite = scores_WC[is_candidate_WC]
    span = 1 + num_words * (finite.max() - finite.min())
    scores_WC[:, num_words] -= span  # one child of the root costs less than two
    graph = nx.DiGraph()
    graph.add_weighted_edges_from(
        (head, word, scores_WC[word, head]) for word, head in np.argwhere(is_candidate_WC).tolist()
    )
    tree = nx.maximum_spanning_arborescence(graph)
    for head, word in tree.edges:
        heads_W[word] = head
    return heads_W


def is_tree(heads_W: Int64[np.ndarray, " word"]) -> bool:
    """Whether heads are a tree with one child of the root."""
    num_words = len(heads_W)
    if (heads_W == num_words).sum() != 1:
        return False
    parents = np.append(heads_W, num_words)
    at = np.arange(num_words)
    for _ in range(num_words.bit_length()):  # each step doubles the distance
        parents = parents[parents]
    return bool((parents[at] == num_words).all())
