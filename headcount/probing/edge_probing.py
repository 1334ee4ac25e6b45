r"""Edge probes and their controls: trained on one treebank, measured on another.

Edge probe: is there an arc between two words, and of which relation, from attention alone.

The features of a pair of words (i, j) are $A^k_{ij}$ and $A^k_{ji}$ of all heads k. One linear
classifier says whether j is the head of i: arcs against as many ordered pairs of words of the same
sentence without an arc. Another says which relation an arc has, among relations with enough
training arcs. Both have an L2 penalty. Training and test sentences are different.

Control (Hewitt and Liang, 2019): random labels that depend on the two words alone, so that a probe
can only get them right by remembering words. Selectivity is the accuracy less that of the control.

References: Visualizing and Measuring the Geometry of BERT (Coenen et al., 2019), section 3,
https://arxiv.org/abs/1906.02715; Designing and Interpreting Probes with Control Tasks (Hewitt and
Liang, 2019), https://arxiv.org/abs/1909.03368
Departure: the paper's features of (i, j) are $A^k_{ij}$ alone. It says neither how pairs without an
arc are drawn nor how data are split.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int64

from headcount.core import CorpusError, amount
from headcount.probing.attention_probe import ProbeData, fit_linear, pair_features, words_with_heads
from headcount.probing.result import ProbeRow
from headcount.probing.treebank import ProbeSentence
from headcount.statistics import Bootstrap


@final
@dataclass(frozen=True, eq=False)
class Pairs:
    """Ordered pairs of words of a treebank with their classes."""

    sentence_P: Int64[np.ndarray, " pair"]
    """Number of each pair's sentence."""
    first_P: Int64[np.ndarray, " pair"]
    """The dependent."""
    second_P: Int64[np.ndarray, " pair"]
    """The head."""
    class_P: Int64[np.ndarray, " pair"]

    @classmethod
    def of(cls, rows: Sequence[tuple[int, int, int, int]]) -> "Pairs":
        """Pairs from rows of sentence, dependent, head and class."""
        columns_4P = np.array(rows, dtype=np.int64).reshape(-1, 4).T
        return cls(*columns_4P)

    def features(self, data: ProbeData) -> Float[np.ndarray, "pair feature"]:
        """The attention of all heads both ways; pairs are sorted by sentence."""
        parts = []
        starts = np.flatnonzero(np.diff(self.sentence_P, prepend=-1))
        for start, stop in zip(starts, [*starts[1:], len(self.sentence_P)], strict=True):
            chosen = slice(start, stop)
            sentence = int(self.sentence_P[start])
            parts.append(pair_features(data, sentence, self.first_P[chosen], self.second_P[chosen]))
        return np.concatenate(parts)


def edge_pairs(sentences: Sequence[ProbeSentence], seed: int) -> Pairs:
    """Arcs (class 1) and as many pairs of the same sentence without an arc (class 0)."""
    generator = np.random.default_rng(seed)
    rows: list[tuple[int, int, int, int]] = []
    for number, sentence in enumerate(sentences):
        head_W = sentence.head_W
        is_free_WW = ~np.eye(len(head_W), dtype=bool)
        words = np.flatnonzero(head_W != len(head_W))
        is_free_WW[words, head_W[words]] = is_free_WW[head_W[words], words] = False
        free = np.argwhere(is_free_WW)
        count = min(len(words), len(free))
        for word in sorted(generator.choice(words, count, replace=False).tolist()):
            rows.append((number, word, int(head_W[word]), 1))
        for at in sorted(
            generator.choice(len(free), count, replace=False).tolist() if count else []
        ):
            rows.append((number, int(free[at, 0]), int(free[at, 1]), 0))
    return Pairs.of(rows)


def frequent_relations(sentences: Sequence[ProbeSentence], min_cases: int) -> tuple[str, ...]:
    """The relations of at least `min_cases` arcs, sorted."""
    count = Counter(
        sentence.relations[word]
        for sentence in sentences
        for word in words_with_heads(sentence.head_W, sentence.relations)
    )
    return tuple(sorted(relation for relation, cases in count.items() if cases >= min_cases))


def relation_pairs(sentences: Sequence[ProbeSentence], relations: Sequence[str]) -> Pairs:
    """The arcs of some relations; the class is the relation's index."""
    index_of = {relation: index for index, relation in enumerate(relations)}
    rows = [
        (number, int(word), int(sentence.head_W[word]), index_of[sentence.relations[word]])
        for number, sentence in enumerate(sentences)
        for word in words_with_heads(sentence.head_W, sentence.relations)
        if sentence.relations[word] in index_of
    ]
    return Pairs.of(rows)


def random_labels(
    pairs: Pairs,
    sentences: Sequence[ProbeSentence],
    shares_C: Float[np.ndarray, " classes"],
    seed: int,
) -> Pairs:
    """The same pairs with a random class for each pair of word types, the same in any treebank."""
    edges_C = np.cumsum(shares_C)[:-1]
    words = zip(pairs.sentence_P.tolist(), pairs.first_P.tolist(), pairs.second_P, strict=True)
    draws = [
        _draw(seed, sentences[number].words[first], sentences[number].words[second])
        for number, first, second in words
    ]
    return replace(pairs, class_P=np.searchsorted(edges_C, np.array(draws), side="right"))


def _draw(seed: int, first: str, second: str) -> float:
    """A number from 0 to 1 that depends on two words and a seed alone."""
    digest = blake2b(f"{seed}\0{first}\0{second}".encode(), digest_size=7).digest()
    return int.from_bytes(digest, "big") / 2**56


EDGE, RELATION = "edge-accuracy", "relation-accuracy"
TRAINED, RANDOM_LABELS, MAJORITY = "trained", "random-labels", "majority"


def probe_edges(
    train: ProbeData, test: ProbeData, bootstrap: Bootstrap, variant: str, min_cases: int, seed: int
) -> list[ProbeRow]:
    """Train both classifiers and, for the trained model, their controls; returns all rows.

    Args:
        train: training sentences with their maps.
        test: test sentences with their maps.
        bootstrap: draws of the test sentences.
        variant: what the maps are of, for the rows.
        min_cases: number of training arcs that a relation needs to be a class.
        seed: seed of the pairs without an arc, of random labels and of training.

    Raises:
        CorpusError: if fewer than two relations have enough training arcs.
    """
    relations = frequent_relations(train.sentences, min_cases)
    if len(relations) < 2:
        raise CorpusError(
            f"Expected at least 2 relations with {amount(min_cases, 'training arc')} each for the "
            f"edge probe, got {len(relations)}. Give more training files or lower --min-cases."
        )
    edges = edge_pairs(train.sentences, seed), edge_pairs(test.sentences, seed + 1)
    arcs = relation_pairs(train.sentences, relations), relation_pairs(test.sentences, relations)
    rows, given = list[ProbeRow](), (train, test, bootstrap, seed)
    for metric, classes, pairs in ((EDGE, ("none", "edge"), edges), (RELATION, relations, arcs)):
        rows += _Task(metric, classes, *pairs, *given).rows(variant)
    return rows


@final
@dataclass(frozen=True, eq=False)
class _Task:
    """One classification of pairs: its classifiers, measured on test pairs."""

    metric: str
    classes: Sequence[str]
    own: Pairs
    """Pairs of training sentences."""
    pairs: Pairs
    train: ProbeData
    test: ProbeData
    bootstrap: Bootstrap
    seed: int

    def rows(self, variant: str) -> list[ProbeRow]:
        """Accuracy over all pairs and by class; of the trained model also controls, selectivity."""
        right_P = self._right(self.own, self.pairs)
        found = [self._row(variant, self.metric, right_P)]
        if self.metric == RELATION:
            known = np.unique(self.pairs.class_P).tolist()
            found += [self._row(variant, self.metric, right_P, index) for index in known]
        if variant != TRAINED:
            return found
        share_C = np.bincount(self.own.class_P, minlength=len(self.classes))
        is_frequent_P = self.pairs.class_P == share_C.argmax()
        share_C = share_C / share_C.sum()
        control_P = self._right(
            random_labels(self.own, self.train.sentences, share_C, self.seed),
            random_labels(self.pairs, self.test.sentences, share_C, self.seed),
        )
        difference_P = right_P.astype(float) - control_P
        return [
            *found,
            self._row(RANDOM_LABELS, self.metric, control_P),
            self._row(variant, f"{self.metric}-selectivity", difference_P),
            self._row(MAJORITY, self.metric, is_frequent_P),
        ]

    @cached_property
    def _features(
        self,
    ) -> tuple[Float[np.ndarray, "own feature"], Float[np.ndarray, "pair feature"]]:
        """The features of the pairs of training and of test sentences."""
        return self.own.features(self.train), self.pairs.features(self.test)

    def _right(self, train: Pairs, test: Pairs) -> Bool[np.ndarray, " pair"]:
        """Whether each test pair's class is predicted."""
        classifier = fit_linear(self._features[0], train.class_P, len(self.classes), self.seed)
        return classifier.predict(self._features[1]) == test.class_P

    def _row(
        self, variant: str, metric: str, value_P: np.ndarray, index: int | None = None
    ) -> ProbeRow:
        """The mean of some numbers of all pairs, or of those of a class."""
        is_case_P = None if index is None else self.pairs.class_P == index
        relation = "all" if index is None else self.classes[index]
        each = self.bootstrap.rate(self.pairs.sentence_P, value_P, is_case_P)
        return ProbeRow("edges", variant, metric, *each, relation=relation)
