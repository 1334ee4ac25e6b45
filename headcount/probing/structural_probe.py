r"""Structural probe: a linear map under which squared distances are distances in the tree.

$$d_B(h_i, h_j)^2 = \lVert B(h_i - h_j) \rVert^2 \approx \text{arcs between } i \text{ and } j,
\qquad \lVert B h_i \rVert^2 \approx \text{arcs between } i \text{ and the root}$$

B has `rank` rows. The loss of a sentence of n words is the mean absolute error over its n^2 pairs,
or n words. Adam at 1e-3 in batches of 20 sentences, at most 40 epochs. A tenth of the training
sentences, drawn by the seed, is held out: when its loss does not fall for an epoch, the rate falls
to a tenth; after three such epochs training stops. The best epoch's B is kept.

With normalized states every word's $h$ is divided by its root mean square, as RMSNorm in a model's
blocks does before they read it. In models such as Llama the first token's state is a hundred times
as large as the others (massive activations), and with it every distance to the first word.

Reference: A Structural Probe for Finding Syntax in Word Representations (Hewitt and Manning, 2019),
measures: section 4.2, https://aclanthology.org/N19-1419/
Departure: the paper holds out the treebank's development set, and never normalizes.

They are trained on one treebank and measured on another:

- UUAS: share of the arcs between words (punctuation left out) that are in the minimum spanning tree
  of the predicted distances over these words. Edges of punctuation count nowhere.
- Spearman: each word's correlation of predicted and true distances to all words (or each sentence's
  of depths), averaged over sentences of one length, then over lengths from 5 to 50.
- Root: share of sentences whose root is the word of least predicted depth, without punctuation.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from scipy.sparse.csgraph import minimum_spanning_tree, shortest_path
from torch import Tensor

from headcount.probing.extraction import WordStates
from headcount.probing.result import ProbeRow, ProbeTree
from headcount.probing.treebank import ProbeSentence
from headcount.statistics import Bootstrap, Estimate, rank_correlations

Kind = Literal["distance", "depth"]

RATE, EPOCHS, BATCH, HELD_OUT, PATIENCE = 1e-3, 40, 20, 0.1, 3


def tree_distances(head_W: Int64[np.ndarray, " word"]) -> Float[np.ndarray, "word word"]:
    """Number of arcs between every two words."""
    num_words = len(head_W)
    arcs_WW = np.zeros((num_words, num_words))
    words = np.flatnonzero(head_W != num_words)
    arcs_WW[words, head_W[words]] = 1
    return shortest_path(arcs_WW, directed=False, unweighted=True)


@final
@dataclass(frozen=True, eq=False)
class StructureData:
    """The sentences of one treebank, with one hidden state of each word."""

    sentences: Sequence[ProbeSentence]
    states: WordStates
    state: int
    """Number of the hidden state, 0 for the embeddings."""
    distances: Sequence[Float[np.ndarray, "_ _"]]
    """Tree distances of each sentence."""
    is_normalized: bool = False
    """Whether each word's state is divided by its root mean square."""

    @classmethod
    def of(
        cls, sentences: Sequence[ProbeSentence], states: WordStates, state: int
    ) -> "StructureData":
        """The data of one hidden state."""
        distances = [tree_distances(each.head_W) for each in sentences]
        return cls(sentences, states, state, distances)

    def at(self, state: int) -> "StructureData":
        """The same sentences with another hidden state, as the model gives it."""
        return StructureData(self.sentences, self.states, state, self.distances)

    def normalized(self) -> "StructureData":
        """The same states, each divided by its root mean square."""
        return replace(self, is_normalized=True)

    def norm_ratio(self) -> float:
        """The largest norm of a word's state, as a multiple of the median norm."""
        norms = [self.vectors(index).norm(dim=1) for index in range(len(self.sentences))]
        norm_N = torch.cat(norms)
        return float(norm_N.max() / norm_N.median().clip(1e-12))

    def depths(self, sentence: int) -> Float[np.ndarray, " word"]:
        """Number of arcs between every word and the root of the sentence."""
        root = int(np.flatnonzero(self.sentences[sentence].head_W == self.num_words(sentence))[0])
        return self.distances[sentence][root]

    def num_words(self, sentence: int) -> int:
        """Number of words of a sentence."""
        return len(self.sentences[sentence].words)

    def vectors(self, sentence: int) -> Float[Tensor, "word width"]:
        """The hidden state of every word of a sentence."""
        vectors_WD = self.states.of(sentence)[self.state].astype(np.float32)
        if self.is_normalized:
            size_W1 = np.sqrt(np.square(vectors_WD).mean(1, keepdims=True))
            vectors_WD = vectors_WD / size_W1.clip(1e-6)
        return torch.from_numpy(vectors_WD)

    def batch(self, indices: Sequence[int], kind: Kind) -> "StructureBatch":
        """Some sentences, padded to the longest."""
        longest = max(map(self.num_words, indices))
        vectors_BWD = torch.zeros(len(indices), longest, self.states.width)
        is_word_BW = torch.zeros(len(indices), longest, dtype=torch.bool)
        gold = torch.zeros(len(indices), *[longest] * (2 if kind == "distance" else 1))
        for row, index in enumerate(indices):
            size = self.num_words(index)
            vectors_BWD[row, :size] = self.vectors(index)
            is_word_BW[row, :size] = True
            if kind == "distance":
                gold[row, :size, :size] = torch.from_numpy(self.distances[index])
            else:
                gold[row, :size] = torch.from_numpy(self.depths(index))
        return StructureBatch(vectors_BWD, is_word_BW, gold)


@final
@dataclass(frozen=True, eq=False)
class StructureBatch:
    """Some sentences, padded to the longest of them."""

    vectors_BWD: Float[Tensor, "batch word width"]
    is_word_BW: Bool[Tensor, "batch word"]
    gold: Tensor
    """Tree distances [batch, word, word], or depths [batch, word]."""


def squared_distances(
    map_DR: Float[Tensor, "width rank"], vectors_BWD: Float[Tensor, "batch word width"]
) -> Float[Tensor, "batch word word"]:
    """||B(h_i - h_j)||^2 of every two words."""
    mapped_BWR = vectors_BWD @ map_DR
    square_BW = mapped_BWR.square().sum(-1)
    product_BWW = mapped_BWR @ mapped_BWR.transpose(1, 2)
    return (square_BW[:, :, None] + square_BW[:, None] - 2 * product_BWW).clamp_min(0)


def squared_norms(
    map_DR: Float[Tensor, "width rank"], vectors_BWD: Float[Tensor, "batch word width"]
) -> Float[Tensor, "batch word"]:
    """||B h_i||^2 of every word."""
    return (vectors_BWD @ map_DR).square().sum(-1)


def structure_loss(map_DR: Tensor, batch: StructureBatch, kind: Kind) -> Float[Tensor, ""]:
    """Mean over sentences of the mean absolute error over pairs or words."""
    size_B = batch.is_word_BW.sum(1)
    if kind == "distance":
        error = squared_distances(map_DR, batch.vectors_BWD) - batch.gold
        counts = batch.is_word_BW[:, :, None] & batch.is_word_BW[:, None]
        return ((error.abs() * counts).sum((1, 2)) / size_B.square()).mean()
    error = squared_norms(map_DR, batch.vectors_BWD) - batch.gold
    return ((error.abs() * batch.is_word_BW).sum(1) / size_B).mean()


def train_structural_probe(
    data: StructureData,
    kind: Kind,
    rank: int,
    seed: int,
    after_epoch: Callable[[int], None] = lambda epoch: None,
) -> Float[Tensor, "width rank"]:
    """Train the map B^T of one hidden state; the best epoch's is returned."""
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(data.sentences))
    num_held_out = max(1, int(HELD_OUT * len(order)))
    held_out, trained_on = order[:num_held_out].tolist(), order[num_held_out:].tolist()
    noise = torch.Generator().manual_seed(seed)
    map_DR = (torch.rand(data.states.width, rank, generator=noise) - 0.5) * 0.1
    map_DR.requires_grad_()
    optimizer = torch.optim.Adam([map_DR], RATE)
    best, best_map_DR, waited = math.inf, map_DR.detach().clone(), 0
    batches, checks = (_batches(data, each, kind) for each in (trained_on, held_out))
    for epoch in range(EPOCHS):
        for number in generator.permutation(len(batches)):
            optimizer.zero_grad()
            structure_loss(map_DR, batches[number], kind).backward()
            optimizer.step()
        loss = _loss(map_DR, checks, kind)
        after_epoch(epoch + 1)
        if loss < best:
            best, best_map_DR, waited = loss, map_DR.detach().clone(), 0
            continue
        waited += 1
        if waited == PATIENCE:
            break
        for group in optimizer.param_groups:
            group["lr"] /= 10
    return best_map_DR


def _batches(data: StructureData, indices: Sequence[int], kind: Kind) -> list[StructureBatch]:
    """Batches of sentences of similar length; they are made once, for all epochs."""
    by_length = sorted(indices, key=data.num_words)
    return [data.batch(by_length[at : at + BATCH], kind) for at in range(0, len(indices), BATCH)]


def _loss(map_DR: Tensor, batches: Sequence[StructureBatch], kind: Kind) -> float:
    """The loss of some sentences, the mean over sentences."""
    sizes = [len(batch.gold) for batch in batches]
    with torch.inference_mode():
        losses = [float(structure_loss(map_DR, batch, kind)) for batch in batches]
    return float(np.average(losses, weights=sizes))


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
        predicted_tree(data.sentences[n], predicted_distances(data, n, map_DR), data.state)
        for n in drawn
    ]


def predicted_tree(
    sentence: ProbeSentence, distance_WW: Float[np.ndarray, "word word"], state: int
) -> ProbeTree:
    """The tree of some distances, beside the gold one."""
    return ProbeTree(
        layer=state,
        words=sentence.words,
        heads=tuple(sentence.head_W.tolist()),
        counts=tuple(sentence.counts_W.tolist()),
        edges=tuple(spanning_tree(distance_WW, sentence.counts_W)),
    )


def distance_scores(
    data: StructureData, map_DR: Float[torch.Tensor, "width rank"], bootstrap: Bootstrap
) -> dict[str, Estimate]:
    """UUAS, and the rank correlation of distances."""
    hits_S2, correlations = np.zeros((len(data.sentences), 2)), list[np.ndarray]()
    for number, sentence in enumerate(data.sentences):
        distance_WW = predicted_distances(data, number, map_DR)
        hits_S2[number] = tree_hits(sentence, distance_WW)
        correlations.append(rank_correlations(distance_WW, data.distances[number]))
    return {
        "uuas": bootstrap.ratio(hits_S2[:, 0], hits_S2[:, 1], shares=True),
        "spearman-distance": mean_over_lengths(data.sentences, correlations, bootstrap),
    }


def depth_scores(
    data: StructureData, map_DR: Float[torch.Tensor, "width rank"], bootstrap: Bootstrap
) -> dict[str, Estimate]:
    """The share of roots that are found, and the rank correlation of depths."""
    hits_S2, correlations = np.zeros((len(data.sentences), 2)), list[np.ndarray]()
    for number, sentence in enumerate(data.sentences):
        with torch.inference_mode():
            depth_W = squared_norms(map_DR, data.vectors(number)[None])[0].numpy()
        gold_W, counts_W = data.depths(number), sentence.counts_W
        if counts_W[gold_W.argmin()]:
            hits_S2[number] = np.where(counts_W, depth_W, np.inf).argmin() == gold_W.argmin(), 1
        correlations.append(rank_correlations(depth_W[None], gold_W[None]))
    return {
        "root": bootstrap.ratio(hits_S2[:, 0], hits_S2[:, 1], shares=True),
        "spearman-depth": mean_over_lengths(data.sentences, correlations, bootstrap),
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


def tree_hits(
    sentence: ProbeSentence, distance_WW: Float[np.ndarray, "word word"]
) -> tuple[int, int]:
    """Number of arcs that are in the predicted tree, and of all arcs."""
    tree = predicted_tree(sentence, distance_WW, state=0)
    gold = {*tree.gold}
    return len(gold & {*tree.edges}), len(gold)


def mean_over_lengths(
    sentences: Sequence[ProbeSentence],
    correlations: Sequence[Float[np.ndarray, " row"]],
    bootstrap: Bootstrap,
) -> Estimate:
    """The mean over lengths of sentences of the mean of their correlations.

    Args:
        sentences: the test sentences.
        correlations: those of every sentence; those that are unknown do not count.
        bootstrap: draws of the test sentences.
    """
    sums_SL = np.zeros((len(sentences), LONGEST - SHORTEST + 1))
    cases_SL = np.zeros_like(sums_SL)
    for row, (sentence, found) in enumerate(zip(sentences, correlations, strict=True)):
        length, known = len(sentence.words), found[~np.isnan(found)]
        if SHORTEST <= length <= LONGEST:
            sums_SL[row, length - SHORTEST] = known.sum()
            cases_SL[row, length - SHORTEST] = len(known)
    return bootstrap.mean_ratio(sums_SL, cases_SL).within(-1.0, 1.0)
