"""Attention probes and their baselines: trained on one treebank, measured on another.

UAS is the share of words with the right head, LAS that with the right head and relation.
Punctuation does not count as a dependent. `macro` is the mean over relations with enough cases.

From scores of candidate heads to predicted heads: the best candidate, or the best tree.

The tree is the maximum spanning arborescence with one child of the root, found by networkx
(Chu and Liu, 1965; Edmonds, 1967). Where the best candidates are such a tree, they are the answer.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import final

import networkx as nx
import numpy as np
import torch
from jaxtyping import Bool, Float, Int64

from headcount.core import Head
from headcount.probing.attention_probe import (
    ArcProbe,
    ProbeData,
    Training,
    candidate_scores,
    train_arc_labels,
    train_arc_probe,
)
from headcount.probing.result import ProbeRow, ProbeWeight
from headcount.probing.treebank import ProbeSentence
from headcount.statistics import Bootstrap


def best_tree(scores_WC: Float[np.ndarray, "dependent candidate"]) -> Int64[np.ndarray, " word"]:
    """The heads of the tree with the largest sum of scores and one child of the root."""
    heads_W = scores_WC.argmax(1)
    if is_tree(heads_W):
        return heads_W
    num_words = len(scores_WC)
    scores_WC = scores_WC.astype(np.float64)
    is_candidate_WC = scores_WC > -1e8
    finite = scores_WC[is_candidate_WC]
    span = 1 + num_words * (finite.max() - finite.min())
    scores_WC[:, num_words] -= span  # one child of the root costs less than two
    graph = nx.DiGraph()
    graph.add_weighted_edges_from(
        (head, word, scores_WC[word, head]) for word, head in np.argwhere(is_candidate_WC).tolist()
    )
    tree = nx.maximum_spanning_arborescence(graph)
    for head, word in tree.edges:
        heads_W[word] = head
    return heads_W


def is_tree(heads_W: Int64[np.ndarray, " word"]) -> bool:
    """Whether heads are a tree with one child of the root."""
    num_words = len(heads_W)
    if (heads_W == num_words).sum() != 1:
        return False
    parents = np.append(heads_W, num_words)
    at = np.arange(num_words)
    for _ in range(num_words.bit_length()):  # each step doubles the distance
        parents = parents[parents]
    return bool((parents[at] == num_words).all())


@final
@dataclass(frozen=True)
class ArcTest:
    """How predicted arcs are measured."""

    sentences: Sequence[ProbeSentence]
    """The test sentences."""
    bootstrap: Bootstrap
    min_cases: int
    """Number of cases that a relation needs to count in the mean over relations."""

    def rows(
        self, probe: str, variant: str, metric: str, right: Sequence[Bool[np.ndarray, " _"]]
    ) -> Iterator[ProbeRow]:
        """The accuracy over all words, the mean over frequent relations, and that of each relation.

        Args:
            probe: name of the probe.
            variant: what it reads.
            metric: name of the accuracy.
            right: whether each word of each sentence is right.
        """
        relations, hits_SR, cases_SR = self._counts(right)
        found = [("all", self.bootstrap.ratio(hits_SR.sum(1), cases_SR.sum(1), shares=True))]
        frequent_R = cases_SR.sum(0) >= self.min_cases
        if frequent_R.any():
            mean = self.bootstrap.mean_ratio(
                hits_SR[:, frequent_R], cases_SR[:, frequent_R], shares=True
            )
            found.append(("macro", mean))
        for column in np.argsort(-cases_SR.sum(0), kind="stable").tolist():
            if cases_SR[:, column].any():
                estimate = self.bootstrap.ratio(
                    hits_SR[:, column], cases_SR[:, column], shares=True
                )
                found.append((relations[column], estimate))
        for relation, ratio in found:
            yield ProbeRow(probe, variant, metric, *ratio, relation=relation)

    def _counts(
        self, right: Sequence[Bool[np.ndarray, " _"]]
    ) -> tuple[list[str], Float[np.ndarray, "sentence relation"], np.ndarray]:
        """Relations, and numbers of right words and of words, by sentence and relation."""
        relations = sorted({relation for each in self.sentences for relation in each.relations})
        hits_SR = np.zeros((len(self.sentences), len(relations)))
        cases_SR = np.zeros_like(hits_SR)
        for row, (sentence, right_W) in enumerate(zip(self.sentences, right, strict=True)):
            counts_W, column_W = sentence.counts_W, np.searchsorted(relations, sentence.relations)
            np.add.at(hits_SR[row], column_W[counts_W], right_W[counts_W])
            np.add.at(cases_SR[row], column_W[counts_W], 1)
        return relations, hits_SR, cases_SR


def probe_arcs(
    train: ProbeData,
    test: ProbeData,
    training: Training,
    measured: ArcTest,
    variant: str,
    seed: int,
    after_epoch: Callable[[int], None],
) -> tuple[list[ProbeRow], ArcProbe]:
    """Train an attention probe and its classifier of labels; returns rows and the probe.

    Args:
        train: training sentences with their maps.
        test: test sentences with their maps.
        training: how the probe is trained.
        measured: how it is measured.
        variant: what the maps are of, for the rows.
        seed: seed of the order of sentences.
        after_epoch: called with the number of epochs so far.
    """
    probe = train_arc_probe(train, training, seed, after_epoch)
    labels = train_arc_labels(train, seed)
    right: dict[str, list[np.ndarray]] = {"uas": [], "las": [], "uas-tree": [], "las-tree": []}
    for number, scores_WC in enumerate(candidate_scores(probe, test)):
        sentence = test.sentences[number]
        relation_W = np.array(sentence.relations)
        for suffix, head_W in (("", scores_WC.argmax(1)), ("-tree", best_tree(scores_WC))):
            is_head_W = head_W == sentence.head_W
            is_label_W = np.array(labels.predict(test, number, head_W)) == relation_W
            right[f"uas{suffix}"].append(is_head_W)
            right[f"las{suffix}"].append(is_head_W & is_label_W)
    name = "attention" if train.vectors is None else "words"
    found = (measured.rows(name, variant, metric, each) for metric, each in right.items())
    return list(chain.from_iterable(found)), probe


def baseline_rows(train: Sequence[ProbeSentence], measured: ArcTest) -> list[ProbeRow]:
    """Rows of the baselines that read nothing: the next word, and the best fixed offset."""
    offset = best_offset(train)
    rows = list[ProbeRow]()
    for variant, heads in (("next-word", next_word), ("offset", partial(fixed_offset, offset))):
        right = [heads(each) == each.head_W for each in measured.sentences]
        rows += measured.rows("attention", variant, "uas", right)
    return rows


def head_weights(probe: ArcProbe, test: ProbeData, heads: Sequence[Head]) -> list[ProbeWeight]:
    """The two weights of every head, and what the head adds to the right candidate's score."""
    total_2K = torch.zeros(2, len(heads), dtype=torch.float64)
    num_words = 0
    with torch.inference_mode():
        for index, sentence in enumerate(test.sentences):
            maps_NNK = test.maps_of([index])[0]
            length = len(sentence.words)
            words = np.flatnonzero((sentence.head_W != length) & sentence.counts_W)
            if length < 2:
                continue
            maps_WWK = maps_NNK[:length, :length]
            own_WK = maps_WWK.diagonal().T
            gold = sentence.head_W[words]
            for side, between_WWK in enumerate((maps_WWK, maps_WWK.transpose(0, 1))):
                mean_WK = (between_WWK.sum(1) - own_WK) / (length - 1)
                total_2K[side] += (between_WWK[words, gold] - mean_WK[words]).sum(0)
            num_words += len(words)
    weights_2K = torch.stack([probe.from_dependent, probe.from_head]).detach()
    added_K = (weights_2K * total_2K).sum(0) / max(num_words, 1)
    return [
        ProbeWeight(str(head), *map(float, (*weights_2K[:, k], added_K[k])))
        for k, head in enumerate(heads)
    ]


def next_word(sentence: ProbeSentence) -> Int64[np.ndarray, " word"]:
    """The next word as the head of every word; the root for the last one."""
    return np.arange(1, len(sentence.words) + 1)


def fixed_offset(offset: int, sentence: ProbeSentence) -> Int64[np.ndarray, " word"]:
    """The word at a fixed offset as the head of every word; the root where there is none."""
    num_words = len(sentence.words)
    head_W = np.arange(num_words) + offset
    return np.where((head_W < 0) | (head_W >= num_words), num_words, head_W)


def best_offset(sentences: Sequence[ProbeSentence], reach: int = 5) -> int:
    """The offset from -5 to 5 that predicts the most heads; the nearest in a tie."""
    offsets = sorted((offset for offset in range(-reach, reach + 1) if offset), key=abs)

    def hits(offset: int) -> int:
        return sum(
            int((each.counts_W & (fixed_offset(offset, each) == each.head_W)).sum())
            for each in sentences
        )

    return max(offsets, key=hits)
