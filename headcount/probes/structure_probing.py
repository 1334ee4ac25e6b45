"""Structural probes of one hidden state: trained on one treebank, measured on another.

- UUAS: share of the arcs between words (punctuation left out) that are in the minimum spanning tree
  of the predicted distances over these words. Edges of punctuation count nowhere.
- Spearman: each word's correlation of predicted and true distances to all words (or each sentence's
  of depths), averaged over sentences of one length, then over lengths from 5 to 50.
- Root: share of sentences whose root is the word of least predicted depth, without punctuation.

Reference: Hewitt and Manning (2019), section 4.2, https://aclanthology.org/N19-1419/
"""

from collections.abc import Callable, Sequence
from typing import final

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.sparse.csgraph import minimum_spanning_tree

from headcount.probes.structural_probe import (
    StructureData,
    squared_distances,
    squared_norms,
    train_structural_probe,
)
from headcount.probes.treebank import ProbeSentence
from headcount.results import ProbeRow, ProbeTree
from headcount.statistics import Bootstrap, Estimate, rank_correlations

SHORTEST, LONGEST = 5, 50
"""Lengths over which rank correlations are averaged."""

_LEAST = 1e-9
"""A distance that is not zero, which would be no edge to scipy."""

NUM_DRAWN, DRAWN_WORDS = 4, (8, 14)
"""Number of test sentences whose trees are kept for figures, and their length in words."""


def probe_structure(
    train: StructureData,
    test: StructureData,
    bootstrap: Bootstrap,
    *,
    rank: int,
    variant: str,
    seed: int,
    after_epoch: Callable[[int], None],
) -> tuple[list[ProbeRow], Float[torch.Tensor, "width rank"]]:
    """Train probes of distance and depth on one hidden state; returns rows and the distances' map.

    Args:
        train: training sentences.
        test: test sentences, of the same hidden state.
        bootstrap: draws of the test sentences.
        rank: number of rows of B.
        variant: what the states are of, for the rows.
        seed: seed of the initial B and the order of sentences.
        after_epoch: called with the number of epochs so far.
    """
    distance_DR = train_structural_probe(train, "distance", rank, seed, after_epoch)
    depth_DR = train_structural_probe(train, "depth", rank, seed, after_epoch)
    found = {
        **distance_scores(test, distance_DR, bootstrap),
        **depth_scores(test, depth_DR, bootstrap),
    }
    rows = [
        ProbeRow("structure", variant, metric, *each, layer=test.state, rank=rank)
        for metric, each in found.items()
    ]
    return rows, distance_DR


def predicted_distances(
    data: StructureData, sentence: int, map_DR: Float[torch.Tensor, "width rank"]
) -> Float[np.ndarray, "word word"]:
    """Predicted distances between the words of a sentence."""
    with torch.inference_mode():
        return squared_distances(map_DR, data.vectors(sentence)[None])[0].numpy()


def predicted_trees(
    data: StructureData, map_DR: Float[torch.Tensor, "width rank"]
) -> list[ProbeTree]:
    """The predicted trees of the first test sentences of middle length, beside the gold ones."""
    drawn = [
        number
        for number, sentence in enumerate(data.sentences)
        if DRAWN_WORDS[0] <= len(sentence.words) <= DRAWN_WORDS[1]
    ][:NUM_DRAWN]
    return [
        ProbeTree(
            layer=data.state,
            words=data.sentences[number].words,
            heads=tuple(data.sentences[number].head_W.tolist()),
            counts=tuple(data.sentences[number].counts_W.tolist()),
            edges=tuple(
                spanning_tree(
                    predicted_distances(data, number, map_DR), data.sentences[number].counts_W
                )
            ),
        )
        for number in drawn
    ]


def distance_scores(
    data: StructureData, map_DR: Float[torch.Tensor, "width rank"], bootstrap: Bootstrap
) -> dict[str, Estimate]:
    """UUAS, and the rank correlation of distances."""
    hits_S2, spearman = np.zeros((len(data.sentences), 2)), LengthMeans(data.sentences)
    for number, sentence in enumerate(data.sentences):
        distance_WW = predicted_distances(data, number, map_DR)
        hits_S2[number] = tree_hits(sentence, distance_WW)
        spearman.add(number, rank_correlations(distance_WW, data.distances[number]))
    return {
        "uuas": bootstrap.ratio(hits_S2[:, 0], hits_S2[:, 1]).within(0.0, 1.0),
        "spearman-distance": spearman.estimate(bootstrap),
    }


def depth_scores(
    data: StructureData, map_DR: Float[torch.Tensor, "width rank"], bootstrap: Bootstrap
) -> dict[str, Estimate]:
    """The share of roots that are found, and the rank correlation of depths."""
    hits_S2, spearman = np.zeros((len(data.sentences), 2)), LengthMeans(data.sentences)
    for number, sentence in enumerate(data.sentences):
        with torch.inference_mode():
            depth_W = squared_norms(map_DR, data.vectors(number)[None])[0].numpy()
        gold_W, counts_W = data.depths(number), sentence.counts_W
        if counts_W[gold_W.argmin()]:
            hits_S2[number] = np.where(counts_W, depth_W, np.inf).argmin() == gold_W.argmin(), 1
        spearman.add(number, rank_correlations(depth_W[None], gold_W[None]))
    return {
        "root": bootstrap.ratio(hits_S2[:, 0], hits_S2[:, 1]).within(0.0, 1.0),
        "spearman-depth": spearman.estimate(bootstrap),
    }


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
        return bootstrap.mean_ratio(self._sums, self._cases).within(-1.0, 1.0)
