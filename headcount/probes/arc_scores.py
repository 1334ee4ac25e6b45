"""Accuracies of predicted arcs: UAS and LAS, over all words, by relation and over relations.

UAS is the share of words with the right head, LAS that with the right head and relation.
Punctuation does not count as a dependent. `macro` is the mean over relations with enough cases.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int64

from headcount.probes.treebank import ProbeSentence
from headcount.statistics import Bootstrap, Estimate

Found = tuple[str, str, Estimate]
"""Relation, metric and number."""


def relation_counts(
    sentences: Sequence[ProbeSentence], right: Sequence[Bool[np.ndarray, " _"]]
) -> tuple[tuple[str, ...], Float[np.ndarray, "sentence relation"], np.ndarray]:
    """Relations, and numbers of right words and of words, by sentence and relation."""
    relations = sorted({relation for each in sentences for relation in each.relations})
    index_of = {relation: index for index, relation in enumerate(relations)}
    hits_SR = np.zeros((len(sentences), len(relations)))
    cases_SR = np.zeros_like(hits_SR)
    for row, (sentence, right_W) in enumerate(zip(sentences, right, strict=True)):
        counts_W = sentence.counts_W
        column_W = np.array([index_of[relation] for relation in sentence.relations])
        np.add.at(hits_SR[row], column_W[counts_W], right_W[counts_W])
        np.add.at(cases_SR[row], column_W[counts_W], 1)
    return tuple(relations), hits_SR, cases_SR


def attachment(
    sentences: Sequence[ProbeSentence],
    right: Sequence[Bool[np.ndarray, " _"]],
    metric: str,
    bootstrap: Bootstrap,
    min_cases: int,
) -> Iterator[Found]:
    """The accuracy over all words, the mean over frequent relations, and that of each relation."""
    relations, hits_SR, cases_SR = relation_counts(sentences, right)
    yield "all", metric, bootstrap.ratio(hits_SR.sum(1), cases_SR.sum(1))
    frequent_R = cases_SR.sum(0) >= min_cases
    if frequent_R.any():
        yield "macro", metric, bootstrap.mean_ratio(hits_SR[:, frequent_R], cases_SR[:, frequent_R])
    for column in np.argsort(-cases_SR.sum(0), kind="stable").tolist():
        if cases_SR[:, column].any():
            estimate = bootstrap.ratio(hits_SR[:, column], cases_SR[:, column])
            yield relations[column], metric, estimate


def next_word(sentence: ProbeSentence) -> Int64[np.ndarray, " word"]:
    """The next word as the head of every word; the root for the last one."""
    return np.arange(1, len(sentence.words) + 1)


def fixed_offset(sentence: ProbeSentence, offset: int) -> Int64[np.ndarray, " word"]:
    """The word at a fixed offset as the head of every word; the root where there is none."""
    num_words = len(sentence.words)
    head_W = np.arange(num_words) + offset
    return np.where((head_W < 0) | (head_W >= num_words), num_words, head_W)


def best_offset(sentences: Sequence[ProbeSentence], reach: int = 5) -> int:
    """The offset from -5 to 5 that predicts the most heads; the nearest in a tie."""
    offsets = sorted((offset for offset in range(-reach, reach + 1) if offset), key=abs)

    def hits(offset: int) -> int:
        return sum(
            int((each.counts_W & (fixed_offset(each, offset) == each.head_W)).sum())
            for each in sentences
        )

    return max(offsets, key=hits)
