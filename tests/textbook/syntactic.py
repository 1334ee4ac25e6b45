"""Dependency relations that a head follows, by definition.

References: Voita et al. 2019, section 5.2, https://arxiv.org/abs/1905.09418
Clark et al. 2019, sections 4.1 and 4.2, https://arxiv.org/abs/1906.04341
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

DIRECTIONS = ("dependent->head", "head->dependent", "head<-dependent")


@dataclass
class Counts:
    """The counts for one relation in one direction."""

    correct: list[int]
    """Number of correct predictions of each head."""
    offsets: Counter[int] = field(default_factory=Counter)
    """Number of cases with the right word at each distance, in words."""
    roots: int = 0
    """Number of words without a head, which nothing predicts."""


def word_map(A: np.ndarray, word_of: list[int]) -> np.ndarray:
    """Attention between words, [head, word, word], from attention between pieces of words.

    Attention to a word is the sum of the attention to its pieces; attention from a word is the mean
    of the attention from its pieces. Special symbols (word -1) are left out; no renormalisation.
    """
    heads, words = A.shape[0], max(word_of, default=-1) + 1
    between = np.zeros((heads, words, words))
    for head in range(heads):
        for source in range(words):
            source_pieces = [piece for piece, word in enumerate(word_of) if word == source]
            for target in range(words):
                target_pieces = [piece for piece, word in enumerate(word_of) if word == target]
                total = 0.0
                for query in source_pieces:
                    for key in target_pieces:
                        total += float(A[head, query, key])
                if source_pieces:
                    between[head, source, target] = total / len(source_pieces)
    return between


def most_attended(weights: list[float], own: int) -> int | None:
    """Index of the largest weight, excluding the word itself; None without any weight."""
    best = None
    for word, weight in enumerate(weights):
        if word == own or weight <= 0:
            continue
        if best is None or weight > weights[best]:
            best = word
    return best


def of_sentence(
    A: np.ndarray,
    word_of: list[int],
    heads: list[int],
    relations: list[str],
    number: list[int] | None = None,
) -> dict[tuple[str, str], Counts]:
    """Counts by relation and direction; `heads` holds each word's syntactic head, -1 for the root.

    Voita et al. (2019): how often a word's maximum attention weight is on the word that it stands
    in the relation with, seen from the dependent (`dependent->head`) and from the head
    (`head->dependent`). Clark et al. (2019), besides the first: the word that attends most to the
    dependent is taken for its head (`head<-dependent`). No word predicts itself. Clark et al. count
    `all` words together as well, of which a root is always missed.

    Words of the tree that share pieces are one word of the text, whose `number` is given for each:
    arcs inside it are none, the others are those of all of its words.
    """
    number = [*range(len(heads))] if number is None else number
    between = word_map(A, word_of)
    counts: dict[tuple[str, str], Counts] = {}
    for word, (its_head, relation) in enumerate(zip(heads, relations, strict=True)):
        dependent, head_word = number[word], -1 if its_head < 0 else number[its_head]
        if dependent == head_word:
            continue
        if head_word < 0:
            for direction in DIRECTIONS:
                counts.setdefault(("all", direction), Counts([0] * A.shape[0])).roots += 1
            continue
        offsets = (head_word - dependent, dependent - head_word, head_word - dependent)
        for direction, offset in zip(DIRECTIONS, offsets, strict=True):
            right = [_is_right(M.tolist(), dependent, head_word, direction) for M in between]
            for name in (relation, "all"):
                count = counts.setdefault((name, direction), Counts([0] * A.shape[0]))
                count.offsets[offset] += 1
                count.correct = [a + b for a, b in zip(count.correct, right, strict=True)]
    return counts


def _is_right(rows: list[list[float]], dependent: int, head_word: int, direction: str) -> bool:
    """Whether one head's attention between words predicts one arc."""
    if direction == "dependent->head":
        return most_attended(rows[dependent], dependent) == head_word
    if direction == "head->dependent":
        return most_attended(rows[head_word], head_word) == dependent
    column = [row[dependent] for row in rows]
    return most_attended(column, dependent) == head_word


@dataclass
class Row:
    """One relation in one direction over a corpus."""

    cases: int
    correct: list[int]
    accuracy: list[float]
    baseline_offset: int
    baseline: float


def over_corpus(sentences: Iterable[dict[str, Any]]) -> dict[tuple[str, str], Row]:
    """Accuracy of each head and the baseline, by relation and direction.

    The baseline always points at the relation's most frequent relative position: the offset at
    which the right word stands most often, of equals the nearer one, then the one to the left.
    """
    sums: dict[tuple[str, str], Counts] = {}
    for sentence in sentences:
        for name, part in of_sentence(**sentence).items():
            so_far = sums.setdefault(name, Counts([0] * len(part.correct)))
            so_far.correct = [a + b for a, b in zip(so_far.correct, part.correct, strict=True)]
            so_far.offsets.update(part.offsets)
            so_far.roots += part.roots
    rows = {}
    for name, count in sums.items():
        cases = count.offsets.total() + count.roots
        offset = min(count.offsets, key=lambda o: (-count.offsets[o], abs(o), o))
        accuracy = [correct / cases for correct in count.correct]
        rows[name] = Row(cases, count.correct, accuracy, offset, count.offsets[offset] / cases)
    return rows
