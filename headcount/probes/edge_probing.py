"""Edge probes and their controls: trained on one treebank, measured on another."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool

from headcount.core import CorpusError, amount
from headcount.probes.attention_probe import ProbeData
from headcount.probes.edge_probe import (
    Pairs,
    edge_pairs,
    frequent_relations,
    random_labels,
    relation_pairs,
)
from headcount.probes.linear_classifier import fit_linear
from headcount.results import ProbeRow
from headcount.statistics import Bootstrap

EDGE, RELATION = "edge-accuracy", "relation-accuracy"
TRAINED, RANDOM_LABELS, MAJORITY = "trained", "random-labels", "majority"


def probe_edges(
    train: ProbeData,
    test: ProbeData,
    bootstrap: Bootstrap,
    *,
    variant: str,
    min_cases: int,
    seed: int,
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
    edges = _Task(EDGE, ("none", "edge"), edge_pairs(train.sentences, seed))
    arcs = _Task(RELATION, relations, relation_pairs(train.sentences, relations))
    tests = (
        edge_pairs(test.sentences, seed + 1),
        relation_pairs(test.sentences, relations),
    )
    rows: list[ProbeRow] = []
    for task, pairs in zip((edges, arcs), tests, strict=True):
        measured = _Measured(task, train, test, pairs, bootstrap, seed)
        rows += measured.rows(variant, with_controls=variant == TRAINED)
    return rows


@final
@dataclass(frozen=True, eq=False)
class _Task:
    """One classification of pairs."""

    metric: str
    classes: Sequence[str]
    train: Pairs


@final
class _Measured:
    """One task's classifiers, measured on test pairs."""

    def __init__(
        self,
        task: _Task,
        train: ProbeData,
        test: ProbeData,
        pairs: Pairs,
        bootstrap: Bootstrap,
        seed: int,
    ) -> None:
        self.task, self.train, self.test, self.pairs = task, train, test, pairs
        self.bootstrap, self.seed = bootstrap, seed
        self.train_features = task.train.features(train)
        self.test_features = pairs.features(test)

    def rows(self, variant: str, with_controls: bool) -> list[ProbeRow]:
        """Accuracy over all pairs and by class; with controls, theirs and selectivity."""
        right_P = self._right(self.task.train, self.pairs)
        found = [self._row(variant, self.task.metric, right_P.astype(float))]
        if self.task.metric == RELATION:
            found += self._by_class(variant, right_P)
        if not with_controls:
            return found
        share_C = np.bincount(self.task.train.class_P, minlength=len(self.task.classes))
        frequent = int(share_C.argmax())
        is_frequent_P = (self.pairs.class_P == frequent).astype(float)
        share_C = share_C / share_C.sum()
        given = (
            random_labels(pairs, data.sentences, share_C, self.seed)
            for pairs, data in ((self.task.train, self.train), (self.pairs, self.test))
        )
        control_P = self._right(*given)
        difference_P = right_P.astype(float) - control_P
        return [
            *found,
            self._row(RANDOM_LABELS, self.task.metric, control_P.astype(float)),
            self._row(variant, f"{self.task.metric}-selectivity", difference_P),
            self._row(MAJORITY, self.task.metric, is_frequent_P),
        ]

    def _right(self, train: Pairs, test: Pairs) -> Bool[np.ndarray, " pair"]:
        """Whether each test pair's class is predicted."""
        classifier = fit_linear(
            self.train_features, train.class_P, len(self.task.classes), self.seed
        )
        return classifier.predict(self.test_features) == test.class_P

    def _row(
        self, variant: str, metric: str, value_P: np.ndarray, relation: str = "all"
    ) -> ProbeRow:
        """The mean of some numbers of pairs."""
        cases_P = np.ones(len(value_P))
        if relation != "all":
            cases_P = (self.pairs.class_P == self.task.classes.index(relation)).astype(float)
        each = self.bootstrap.ratio(
            self._by_sentence(value_P * cases_P), self._by_sentence(cases_P)
        ).within(0.0, 1.0)
        return ProbeRow(
            probe="edges",
            variant=variant,
            metric=metric,
            value=each.value,
            low=each.low,
            high=each.high,
            cases=each.cases,
            relation=relation,
        )

    def _by_class(self, variant: str, right_P: np.ndarray) -> list[ProbeRow]:
        present = set(self.pairs.class_P.tolist())
        return [
            self._row(variant, self.task.metric, right_P.astype(float), relation)
            for index, relation in enumerate(self.task.classes)
            if index in present
        ]

    def _by_sentence(self, value_P: np.ndarray) -> np.ndarray:
        """Sums of some numbers of pairs by test sentence."""
        num_sentences = len(self.test.sentences)
        return np.bincount(self.pairs.sentence_P, value_P, num_sentences)
