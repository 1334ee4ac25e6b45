"""Labels of arcs: a linear classifier of the relation over the features of the attention probe.

Its features are $A^k_{dh}$ and $A^k_{hd}$ of every map and, with words, the vectors of the
dependent and the head. The arc from the root always has the relation `root`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float, Int64

from headcount.probes.attention_probe import ProbeData
from headcount.probes.linear_classifier import LinearClassifier, fit_linear

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
