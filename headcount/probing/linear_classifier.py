"""A linear classifier: multinomial logistic regression with an L2 penalty, trained with Adam.

Labels of arcs: a linear classifier of the relation over the features of the attention probe.

Its features are $A^k_{dh}$ and $A^k_{hd}$ of every map and, with words, the vectors of the
dependent and the head. The arc from the root always has the relation `root`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional

from headcount.probing.attention_probe import ProbeData

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
class ArcLabels:
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


def train_arc_labels(data: ProbeData, seed: int) -> ArcLabels:
    """Train on the arcs of the treebank."""
    relations = sorted({each for one in data.sentences for each in one.relations if each != ROOT})
    index_of = {relation: index for index, relation in enumerate(relations)}
    features, classes = list[np.ndarray](), list[int]()
    for number, sentence in enumerate(data.sentences):
        words = words_with_heads(sentence.head_W, sentence.relations)
        features.append(pair_features(data, number, words, sentence.head_W[words]))
        classes += [index_of[sentence.relations[word]] for word in words]
    class_N = np.array(classes, dtype=np.int64)
    return ArcLabels(
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
