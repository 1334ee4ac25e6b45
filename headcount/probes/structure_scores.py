"""Scores of a structural probe: trees, rank correlations by length, and roots.

- UUAS: share of the arcs between words (punctuation left out) that are in the minimum spanning tree
  of the predicted distances over these words. Edges of punctuation count nowhere.
- Spearman: each word's correlation of predicted and true distances to all words (or each sentence's
  of depths), averaged over sentences of one length, then over lengths from 5 to 50.
- Root: share of sentences whose root is the word of least predicted depth, without punctuation.

Reference: Hewitt and Manning (2019), section 4.2, https://aclanthology.org/N19-1419/
"""

from collections.abc import Sequence
from typing import final

import numpy as np
from jaxtyping import Bool, Float
from scipy.sparse.csgraph import minimum_spanning_tree

from headcount.probes.treebank import ProbeSentence
from headcount.statistics import Bootstrap, Estimate

SHORTEST, LONGEST = 5, 50
"""Lengths over which rank correlations are averaged."""

_LEAST = 1e-9
"""A distance that is not zero, which would be no edge to scipy."""


def spanning_tree(
    distance_WW: Float[np.ndarray, "word word"], counts_W: Bool[np.ndarray, " word"]
) -> list[tuple[int, int]]:
    """Edges of the minimum spanning tree over the words that count."""
    words = np.flatnonzero(counts_W)
    if len(words) < 2:
        return []
    inside = np.maximum(distance_WW[np.ix_(words, words)], _LEAST)
    tree = minimum_spanning_tree(np.triu(inside, 1)).tocoo()
    return [(int(words[i]), int(words[j])) for i, j in zip(tree.row, tree.col, strict=True)]


def gold_edges(sentence: ProbeSentence) -> list[tuple[int, int]]:
    """The arcs between words that count."""
    counts_W, num_words = sentence.counts_W, len(sentence.words)
    return [
        (min(word, int(head)), max(word, int(head)))
        for word, head in enumerate(sentence.head_W)
        if head != num_words and counts_W[word] and counts_W[head]
    ]


def tree_hits(
    sentence: ProbeSentence, distance_WW: Float[np.ndarray, "word word"]
) -> tuple[int, int]:
    """Number of arcs that are in the predicted tree, and of all arcs."""
    gold = set(gold_edges(sentence))
    found = set(spanning_tree(distance_WW, sentence.counts_W))
    return len(gold & found), len(gold)


@final
class LengthMeans:
    """Means by length of sentence, and the mean over lengths.

    Args:
        sentences: the test sentences.
    """

    def __init__(self, sentences: Sequence[ProbeSentence]) -> None:
        lengths = [len(each.words) for each in sentences]
        self._column = [
            length - SHORTEST if SHORTEST <= length <= LONGEST else None for length in lengths
        ]
        self._sums = np.zeros((len(lengths), LONGEST - SHORTEST + 1))
        self._cases = np.zeros_like(self._sums)

    def add(self, sentence: int, correlations: Float[np.ndarray, " row"]) -> None:
        """Add the correlations of one sentence; those that are unknown do not count."""
        column, known = self._column[sentence], correlations[~np.isnan(correlations)]
        if column is not None:
            self._sums[sentence, column] = known.sum()
            self._cases[sentence, column] = len(known)

    def estimate(self, bootstrap: Bootstrap) -> Estimate:
        """The mean over lengths of the mean over rows."""
        return bootstrap.mean_ratio(self._sums, self._cases)
