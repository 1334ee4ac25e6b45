r"""Edge probe: is there an arc between two words, and of which relation, from attention alone.

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
from dataclasses import dataclass
from hashlib import blake2b
from typing import final

import numpy as np
from jaxtyping import Float, Int64

from headcount.probes.arc_labels import pair_features, words_with_heads
from headcount.probes.attention_probe import ProbeData
from headcount.probes.treebank import ProbeSentence


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

    def with_classes(self, class_P: Int64[np.ndarray, " pair"]) -> "Pairs":
        """The same pairs with other classes."""
        return Pairs(self.sentence_P, self.first_P, self.second_P, class_P)


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
    return pairs.with_classes(np.searchsorted(edges_C, np.array(draws), side="right"))


def _draw(seed: int, first: str, second: str) -> float:
    """A number from 0 to 1 that depends on two words and a seed alone."""
    digest = blake2b(f"{seed}\0{first}\0{second}".encode(), digest_size=7).digest()
    return int.from_bytes(digest, "big") / 2**56
