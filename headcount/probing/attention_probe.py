r"""Attention probe: dependency heads from a combination of all attention heads.

$$p(i \text{ is the head of } j) \propto \exp \sum_k \bigl(w_k A^k_{ij} + u_k A^k_{ji}\bigr)$$

With words, the weights of a pair are linear in the vectors of its two words:
$w_k = a_k \cdot v_i + b_k \cdot v_j + c_k$, likewise $u_k$. The root is one more candidate. Its
score is linear in the attention from and to the special tokens before and after the sentence, plus
a constant, which is all that models without special tokens have.

Reference: What Does BERT Look At? (Clark et al., 2019), section 5, https://arxiv.org/abs/1906.04341
Departure: the constants $c_k$ and that of the root are ours. The paper reports accuracies without
labels; here a linear classifier of the arc's label reads $A^k_{ij}$, $A^k_{ji}$ and, with words,
$v_i$ and $v_j$.

The linear classifier is a multinomial logistic regression with an L2 penalty, trained with Adam.
For labels of arcs its features are $A^k_{dh}$ and $A^k_{hd}$ of every map and, with words, the
vectors of the dependent and the head. The arc from the root always has the relation `root`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from headcount.probing.extraction import NUM_SLOTS, WordMaps
from headcount.probing.treebank import ProbeSentence
from headcount.probing.vectors import WordVectors

_MapsOf = Callable[[Sequence[int]], Float[Tensor, "batch query key map"]]
"""Gives the maps of some sentences, padded; special tokens before and after come last."""

_NEVER = -1e9
"""Score of what is no candidate."""


@final
@dataclass(frozen=True)
class Training:
    """How a probe is trained, with Adam."""

    rate: float
    """Learning rate."""
    epochs: int
    """Number of passes over the training sentences."""
    batch: int = 16
    """Number of sentences in a batch."""


ATTENTION = Training(rate=2e-2, epochs=5)
WORDS = Training(rate=2e-3, epochs=12)


@final
@dataclass(frozen=True, eq=False)
class ProbeData:
    """The sentences of one treebank as a probe reads them."""

    sentences: Sequence[ProbeSentence]
    num_maps: int
    """Number of maps: heads, or distances."""
    maps_of: _MapsOf
    """Gives their maps."""
    vectors: WordVectors | None = None
    """Word vectors; None for a probe without words."""

    @classmethod
    def of(
        cls, sentences: Sequence[ProbeSentence], maps: WordMaps, vectors: WordVectors | None = None
    ) -> "ProbeData":
        """The data of attention maps."""
        return cls(sentences, maps.num_heads, maps.batch, vectors)

    def batch(self, indices: Sequence[int]) -> "_ProbeBatch":
        """Some sentences, padded to the longest."""
        maps_BNNK = self.maps_of(indices)
        sentences = [self.sentences[index] for index in indices]
        longest = maps_BNNK.shape[1] - NUM_SLOTS
        head_BW = torch.full((len(indices), longest), -1)
        for row, sentence in enumerate(sentences):
            head_W = torch.from_numpy(sentence.head_W)
            length = len(head_W)
            head_BW[row, :length] = head_W.masked_fill(head_W == length, longest)
        vectors_BWD = None if self.vectors is None else self.vectors.of(sentences, longest)
        return _ProbeBatch(maps_BNNK, vectors_BWD, head_BW)


@final
@dataclass(frozen=True, eq=False)
class _ProbeBatch:
    """Some sentences, padded to the longest of them."""

    maps_BNNK: Float[Tensor, "batch query key map"]
    """Maps; the last two places are the special tokens before and after."""
    vectors_BWD: Float[Tensor, "batch word width"] | None
    """Word vectors."""
    head_BW: Int64[Tensor, "batch word"]
    """Index of each word's head; the padded length for the root, -1 for padding."""


@final
class ArcProbe(nn.Module):
    """Scores every word and the root as the head of every word.

    Args:
        num_maps: number of maps.
        width: size of a word vector; 0 for a probe without words.
    """

    def __init__(self, num_maps: int, width: int = 0) -> None:
        super().__init__()
        self.from_dependent = nn.Parameter(torch.zeros(num_maps))
        self.from_head = nn.Parameter(torch.zeros(num_maps))
        self.words = nn.Parameter(torch.zeros(4, width, num_maps))
        """Of A_dh by the vectors of d and of h, then of A_hd by those of d and of h."""
        self.root = nn.Parameter(torch.zeros(2 * NUM_SLOTS, num_maps))
        self.constant = nn.Parameter(torch.zeros(()))

    def forward(self, batch: _ProbeBatch) -> Float[Tensor, "batch dependent candidate"]:
        """Scores of all candidates; the last one is the root."""
        maps_BNNK, num_words = batch.maps_BNNK, batch.head_BW.shape[1]
        maps_BWWK = maps_BNNK[:, :num_words, :num_words]
        scores_BWW = maps_BWWK @ self.from_dependent
        scores_BWW = scores_BWW + (maps_BWWK @ self.from_head).transpose(1, 2)
        if batch.vectors_BWD is not None:
            scores_BWW = scores_BWW + self._by_words(maps_BWWK, batch.vectors_BWD)
        is_word_BW = batch.head_BW >= 0
        itself_WW = torch.eye(num_words, dtype=torch.bool)
        scores_BWW = scores_BWW.masked_fill(itself_WW | ~is_word_BW[:, None], _NEVER)
        return torch.cat([scores_BWW, self._root(maps_BNNK, num_words)[..., None]], -1)

    def _by_words(
        self, maps_BWWK: Tensor, vectors_BWD: Tensor
    ) -> Float[Tensor, "batch dependent candidate"]:
        """The part of the scores whose weights are linear in the two words' vectors."""
        own, others, own_back, others_back = torch.einsum("bwd,xdk->xbwk", vectors_BWD, self.words)
        by_query = maps_BWWK @ torch.stack([own, others_back], -1)
        by_key = maps_BWWK.transpose(1, 2) @ torch.stack([own_back, others], -1)
        first, second = (by_query + by_key).unbind(-1)
        return first + second.transpose(1, 2)

    def _root(self, maps_BNNK: Tensor, num_words: int) -> Float[Tensor, "batch dependent"]:
        to_BWSK = maps_BNNK[:, :num_words, num_words:]
        from_BSWK = maps_BNNK[:, num_words:, :num_words]
        score_BW = torch.einsum("bwsk,sk->bw", to_BWSK, self.root[:NUM_SLOTS])
        score_BW = score_BW + torch.einsum("bswk,sk->bw", from_BSWK, self.root[NUM_SLOTS:])
        return score_BW + self.constant


def train_arc_probe(
    data: ProbeData, training: Training, seed: int, after_epoch: Callable[[int], None] = print
) -> ArcProbe:
    """Train a probe by the cross-entropy of each word's head among all candidates."""
    probe = ArcProbe(data.num_maps, 0 if data.vectors is None else data.vectors.width)
    optimizer = torch.optim.Adam(probe.parameters(), training.rate)
    generator = np.random.default_rng(seed)
    for epoch in range(training.epochs):
        for indices in shuffled(data.sentences, training.batch, generator):
            batch = data.batch(indices)
            scores_BWC = probe(batch)
            loss = functional.cross_entropy(
                scores_BWC.flatten(0, 1), batch.head_BW.flatten(), ignore_index=-1
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        after_epoch(epoch + 1)
    return probe


def shuffled(
    sentences: Sequence[ProbeSentence], size: int, generator: np.random.Generator
) -> Iterator[list[int]]:
    """Batches in random order; sentences of similar length are together, to spare padding."""
    order = generator.permutation(len(sentences))
    pools = [order[at : at + 20 * size] for at in range(0, len(order), 20 * size)]
    batches = []
    for pool in pools:
        by_length = sorted(pool.tolist(), key=lambda index: len(sentences[index].words))
        batches += [by_length[at : at + size] for at in range(0, len(by_length), size)]
    for number in generator.permutation(len(batches)):
        yield batches[number]


def candidate_scores(
    probe: ArcProbe, data: ProbeData, size: int = 64
) -> Iterator[Float[np.ndarray, "dependent candidate"]]:
    """The scores of every sentence, in order; the last candidate is the root."""
    with torch.inference_mode():
        for at in range(0, len(data.sentences), size):
            indices = range(at, min(at + size, len(data.sentences)))
            scores_BWC = probe(data.batch(indices)).numpy()
            for scores_WC, index in zip(scores_BWC, indices, strict=True):
                length = len(data.sentences[index].words)
                yield scores_WC[:length, [*range(length), -1]]


RATE, EPOCHS, BATCH, PENALTY = 1e-2, 15, 512, 1e-4


@final
@dataclass(frozen=True, eq=False)
class LinearClassifier:
    """Class scores that are linear in features, which are scaled to variance 1."""

    mean_F: Float[Tensor, " feature"]
    scale_F: Float[Tensor, " feature"]
    weight_FC: Float[Tensor, "feature classes"]
    bias_C: Float[Tensor, " classes"]

    def scores(
        self, features_NF: Float[np.ndarray, "case feature"]
    ) -> Float[np.ndarray, "case classes"]:
        """The score of every class."""
        scaled_NF = (torch.from_numpy(features_NF) - self.mean_F) / self.scale_F
        return (scaled_NF @ self.weight_FC + self.bias_C).numpy()

    def predict(self, features_NF: Float[np.ndarray, "case feature"]) -> Int64[np.ndarray, " case"]:
        """The class with the largest score."""
        return self.scores(features_NF).argmax(1)


def fit_linear(
    features_NF: Float[np.ndarray, "case feature"],
    class_N: Int64[np.ndarray, " case"],
    num_classes: int,
    seed: int,
    epochs: int = EPOCHS,
) -> LinearClassifier:
    """Fit a classifier; the learning rate falls to zero."""
    features, classes = torch.from_numpy(features_NF), torch.from_numpy(class_N)
    mean_F, scale_F = features.mean(0), features.std(0).clamp_min(1e-6)
    weight_FC = torch.zeros(features.shape[1], num_classes, requires_grad=True)
    bias_C = torch.zeros(num_classes, requires_grad=True)
    optimizer = torch.optim.Adam([weight_FC, bias_C], RATE)
    generator = torch.Generator().manual_seed(seed)
    num_steps = epochs * -(-len(features) // BATCH)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, num_steps)
    for _ in range(epochs):
        for chosen in torch.randperm(len(features), generator=generator).split(BATCH):
            scores = ((features[chosen] - mean_F) / scale_F) @ weight_FC + bias_C
            penalty = PENALTY * weight_FC.square().sum()
            loss = functional.cross_entropy(scores, classes[chosen]) + penalty
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return LinearClassifier(mean_F, scale_F, weight_FC.detach(), bias_C.detach())


ROOT = "root"


@final
@dataclass(frozen=True, eq=False)
class _ArcLabels:
    """A classifier of relations."""

    relations: tuple[str, ...]
    classifier: LinearClassifier

    def predict(
        self, data: ProbeData, sentence: int, head_W: Int64[np.ndarray, " word"]
    ) -> list[str]:
        """The relation of every word to a given head."""
        num_words = len(head_W)
        words = np.flatnonzero(head_W != num_words)
        labels = [ROOT] * num_words
        if len(words):
            features = pair_features(data, sentence, words, head_W[words])
            for word, label in zip(words, self.classifier.predict(features), strict=True):
                labels[word] = self.relations[label]
        return labels


def pair_features(
    data: ProbeData,
    sentence: int,
    first_P: Int64[np.ndarray, " pair"],
    second_P: Int64[np.ndarray, " pair"],
) -> Float[np.ndarray, "pair feature"]:
    """What is known of some pairs of words: attention both ways, and the words' vectors."""
    maps_NNK = data.maps_of([sentence])[0].numpy()
    parts = [maps_NNK[first_P, second_P], maps_NNK[second_P, first_P]]
    if data.vectors is not None:
        vectors_WD = data.vectors.of(
            [data.sentences[sentence]], len(data.sentences[sentence].words)
        )[0].numpy()
        parts += [vectors_WD[first_P], vectors_WD[second_P]]
    return np.concatenate(parts, 1)


def train_arc_labels(data: ProbeData, seed: int) -> _ArcLabels:
    """Train on the arcs of the treebank."""
    relations = sorted({each for one in data.sentences for each in one.relations if each != ROOT})
    index_of = {relation: index for index, relation in enumerate(relations)}
    features, classes = list[np.ndarray](), list[int]()
    for number, sentence in enumerate(data.sentences):
        words = words_with_heads(sentence.head_W, sentence.relations)
        features.append(pair_features(data, number, words, sentence.head_W[words]))
        classes += [index_of[sentence.relations[word]] for word in words]
    class_N = np.array(classes, dtype=np.int64)
    return _ArcLabels(
        tuple(relations), fit_linear(np.concatenate(features), class_N, len(relations), seed)
    )


def words_with_heads(
    head_W: Int64[np.ndarray, " word"], relations: Sequence[str]
) -> Int64[np.ndarray, " arc"]:
    """The words whose head is a word."""
    return np.array(
        [
            word
            for word, head in enumerate(head_W)
            if head != len(head_W) and relations[word] != ROOT
        ],
        dtype=np.int64,
    )
