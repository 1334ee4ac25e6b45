"""Attention probes and their baselines: trained on one treebank, measured on another."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from headcount.core import Head
from headcount.probes.arc_labels import train_arc_labels
from headcount.probes.arc_scores import attachment, best_offset, fixed_offset, next_word
from headcount.probes.attention_probe import (
    ArcProbe,
    ProbeData,
    Training,
    candidate_scores,
    train_arc_probe,
)
from headcount.probes.decoding import best_heads, best_tree
from headcount.probes.treebank import ProbeSentence
from headcount.results import ProbeRow, ProbeWeight
from headcount.statistics import Bootstrap


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
        self, probe: str, variant: str, metric: str, right: Sequence[np.ndarray]
    ) -> Iterator[ProbeRow]:
        """Rows of one metric, from whether each word of each sentence is right."""
        found = attachment(self.sentences, right, metric, self.bootstrap, self.min_cases)
        for relation, name, estimate in found:
            yield ProbeRow(
                probe=probe,
                variant=variant,
                metric=name,
                value=estimate.value,
                low=estimate.low,
                high=estimate.high,
                cases=estimate.cases,
                relation=relation,
            )


def probe_arcs(
    train: ProbeData,
    test: ProbeData,
    training: Training,
    measured: ArcTest,
    *,
    names: tuple[str, str],
    seed: int,
    after_epoch: Callable[[int], None],
) -> tuple[list[ProbeRow], ArcProbe]:
    """Train an attention probe and its classifier of labels; returns rows and the probe.

    Args:
        train: training sentences with their maps.
        test: test sentences with their maps.
        training: how the probe is trained.
        measured: how it is measured.
        names: names of the probe and the variant, for the rows.
        seed: seed of the order of sentences.
        after_epoch: called with the number of epochs so far.
    """
    probe = train_arc_probe(train, training, seed, after_epoch)
    labels = train_arc_labels(train, seed)
    right: dict[str, list[np.ndarray]] = {"uas": [], "las": [], "uas-tree": [], "las-tree": []}
    for number, scores_WC in enumerate(candidate_scores(probe, test)):
        sentence = test.sentences[number]
        relation_W = np.array(sentence.relations)
        for suffix, head_W in (("", best_heads(scores_WC)), ("-tree", best_tree(scores_WC))):
            is_head_W = head_W == sentence.head_W
            is_label_W = np.array(labels.predict(test, number, head_W)) == relation_W
            right[f"uas{suffix}"].append(is_head_W)
            right[f"las{suffix}"].append(is_head_W & is_label_W)
    rows = [row for metric in right for row in measured.rows(*names, metric, right[metric])]
    return rows, probe


def baseline_rows(train: Sequence[ProbeSentence], measured: ArcTest) -> list[ProbeRow]:
    """Rows of the baselines that read nothing: the next word, and the best fixed offset."""
    offset = best_offset(train)
    heads = {
        "next-word": [next_word(each) for each in measured.sentences],
        "offset": [fixed_offset(each, offset) for each in measured.sentences],
    }
    return [
        row
        for variant, found in heads.items()
        for row in measured.rows(
            "attention",
            variant,
            "uas",
            [head_W == each.head_W for head_W, each in zip(found, measured.sentences, strict=True)],
        )
    ]


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
