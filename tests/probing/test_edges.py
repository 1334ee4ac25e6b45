"""The edge probe and its controls, on planted attention and on noise."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from headcount.core import CorpusError
from headcount.probing import ProbeRow
from headcount.probing.attention_probe import ProbeData
from headcount.probing.edge_probing import (
    Pairs,
    edge_pairs,
    frequent_relations,
    probe_edges,
    random_labels,
    relation_pairs,
)
from headcount.statistics import Bootstrap
from tests.probing import planted

TRAIN, TEST = planted.sentences(150, seed=1), planted.sentences(60, seed=2)


def test_pairs_are_arcs_and_as_many_others_of_the_same_sentence() -> None:
    pairs = edge_pairs(TRAIN, 0)
    count = Counter(zip(pairs.sentence_P.tolist(), pairs.class_P.tolist(), strict=True))
    rows = zip(
        pairs.sentence_P.tolist(),
        pairs.first_P.tolist(),
        pairs.second_P.tolist(),
        pairs.class_P.tolist(),
        strict=True,
    )
    seen = set()
    for number, first, second, is_arc in rows:
        head_W = TRAIN[number].head_W
        assert first != second and (number, first, second) not in seen
        seen.add((number, first, second))
        assert (head_W[first] == second) == bool(is_arc)
        if not is_arc:
            assert head_W[second] != first
    for number, each in enumerate(TRAIN):
        size = len(each.words)
        free = size * (size - 1) - 2 * (size - 1)
        assert count[number, 0] == count[number, 1] == min(size - 1, free)
    other = edge_pairs(TRAIN, 1)
    assert not np.array_equal(other.first_P, pairs.first_P)


def test_features_are_attention_both_ways(tmp_path: Path) -> None:
    maps = planted.maps(tmp_path / "maps", TRAIN, 3, None)
    pairs = Pairs.of([(4, 1, 0, 0), (4, 0, 1, 0), (9, 1, 0, 0)])
    found = pairs.features(ProbeData.of(TRAIN, maps))
    expected = [
        np.concatenate([maps.of(number)[i, j], maps.of(number)[j, i]])
        for number, i, j in ((4, 1, 0), (4, 0, 1), (9, 1, 0))
    ]
    np.testing.assert_array_equal(found, np.array(expected, dtype=np.float32))


def test_relations_with_few_arcs_are_no_class() -> None:
    count = Counter(relation for each in TRAIN for relation in each.relations if relation != "root")
    least = sorted(count.values())[1]
    assert set(frequent_relations(TRAIN, least)) == {
        relation for relation, cases in count.items() if cases >= least
    }
    pairs = relation_pairs(TRAIN, ("det", "obj"))
    assert len(pairs.class_P) == count["det"] + count["obj"]
    assert (pairs.class_P == 0).sum() == count["det"]


def test_random_labels_depend_on_the_two_words_alone() -> None:
    pairs = edge_pairs(TRAIN, 0)
    labelled = random_labels(pairs, TRAIN, np.array([0.25, 0.75]), 0)
    label_of: dict[tuple[str, str], int] = {}
    for number, first, second, label in zip(
        labelled.sentence_P.tolist(),
        labelled.first_P.tolist(),
        labelled.second_P.tolist(),
        labelled.class_P.tolist(),
        strict=True,
    ):
        words = (TRAIN[number].words[first], TRAIN[number].words[second])
        assert label_of.setdefault(words, label) == label
    assert 0.6 < np.mean(list(label_of.values())) < 0.9
    other = random_labels(pairs, TRAIN, np.array([0.25, 0.75]), 1)
    assert not np.array_equal(other.class_P, labelled.class_P)


def probed(tmp_path: Path, planted_head: int | None) -> list[ProbeRow]:
    train, test = (
        ProbeData.of(each, planted.maps(tmp_path / name, each, 4, planted_head, seed))
        for name, each, seed in (("train", TRAIN, 5), ("test", TEST, 6))
    )
    bootstrap = Bootstrap(len(TEST), 100, 0)
    return probe_edges(train, test, bootstrap, variant="trained", min_cases=50, seed=0)


def find(rows: list[ProbeRow], metric: str, variant: str = "trained") -> ProbeRow:
    return next(row for row in rows if (row.metric, row.variant) == (metric, variant))


def test_planted_arcs_are_found_and_random_labels_are_not(tmp_path: Path) -> None:
    rows = probed(tmp_path, planted_head=2)
    edge, control = find(rows, "edge-accuracy"), find(rows, "edge-accuracy", "random-labels")
    assert edge.value > 0.9 and control.value < 0.62
    selectivity = find(rows, "edge-accuracy-selectivity")
    assert selectivity.value == pytest.approx(edge.value - control.value)
    assert 0 < selectivity.low < selectivity.value < selectivity.high
    assert find(rows, "edge-accuracy", "majority").value == 0.5
    assert find(rows, "relation-accuracy").value < 0.5  # relations are drawn at random
    parts = [row for row in rows if row.relation != "all" and row.metric == "relation-accuracy"]
    assert {row.relation for row in parts} == set(planted.RELATIONS)
    assert sum(row.cases for row in parts) == find(rows, "relation-accuracy").cases


def test_nothing_is_found_in_noise(tmp_path: Path) -> None:
    rows = probed(tmp_path, planted_head=None)
    assert abs(find(rows, "edge-accuracy").value - 0.5) < 0.08


def test_too_few_arcs_for_relations(tmp_path: Path) -> None:
    made = ProbeData.of(TRAIN, planted.maps(tmp_path / "maps", TRAIN, 2, None))
    with pytest.raises(
        CorpusError, match="at least 2 relations with 5,000 training arcs each .* 0"
    ):
        probe_edges(made, made, Bootstrap(150, 10, 0), variant="trained", min_cases=5000, seed=0)
